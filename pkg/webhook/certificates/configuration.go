// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// configuration is a webhook configuration with caBundles of the authority.
type configuration struct {
	// resource is the full name of the resource.
	resource string
	informer cache.SharedIndexInformer
	// observe returns the configuration, or nil if it is absent.
	observe func() *observation
	// apply applies the bundle to the webhooks of an observed configuration.
	apply func(ctx context.Context, observed *observation, bundle []byte) error
	// applied is the bundle that was applied to the observation with the resourceVersion appliedTo.
	// It is valid until the cache has a later version.
	applied   []byte
	appliedTo string
}

// observation has the relevant fields of a webhook configuration.
type observation struct {
	object   metav1.Object
	webhooks []string
	bundles  [][]byte
}

// has reports whether all webhooks have a bundle, or the configuration is absent.
func (c *configuration) has(bundle []byte) bool {
	observed := c.observe()
	if observed == nil || c.appliedTo == observed.object.GetResourceVersion() && bytes.Equal(c.applied, bundle) {
		return true
	}
	return !slices.ContainsFunc(observed.bundles, func(b []byte) bool { return !bytes.Equal(b, bundle) })
}

// publish sets the bundle of all webhooks, unless they have it already.
func (c *configuration) publish(ctx context.Context, bundle []byte) error {
	observed := c.observe()
	if observed == nil || c.has(bundle) {
		return nil
	}
	if err := c.apply(ctx, observed, bundle); err != nil {
		return fmt.Errorf("writing the caBundle of the webhook configuration %s: %w", observed.object.GetName(), err)
	}
	c.applied, c.appliedTo = bundle, observed.object.GetResourceVersion()
	klog.FromContext(ctx).Info("Published the CA of the webhook", "configuration", observed.object.GetName(),
		"kind", fmt.Sprintf("%T", observed.object))
	return nil
}

// applyOptions returns the options of all applies. The applied objects have a resourceVersion, so
// that an apply does not add a webhook that was removed in the meantime.
func applyOptions(options Options) metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: options.Name, Force: true}
}

func newValidating(client kubernetes.Interface, factory informers.SharedInformerFactory, options Options) *configuration {
	informer := factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	return &configuration{
		resource: admissionregistrationv1.Resource("validatingwebhookconfigurations").String(), informer: informer,
		observe: func() *observation {
			found, ok := get[*admissionregistrationv1.ValidatingWebhookConfiguration](informer, options.Configurations)
			if !ok {
				return nil
			}
			observed := &observation{object: found}
			for i := range found.Webhooks {
				observed.add(found.Webhooks[i].Name, found.Webhooks[i].ClientConfig)
			}
			return observed
		},
		apply: func(ctx context.Context, observed *observation, bundle []byte) error {
			desired := applyv1.ValidatingWebhookConfiguration(observed.object.GetName()).
				WithResourceVersion(observed.object.GetResourceVersion())
			for _, name := range observed.webhooks {
				desired.WithWebhooks(applyv1.ValidatingWebhook().WithName(name).
					WithClientConfig(applyv1.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Apply(ctx, desired, applyOptions(options))
			return err
		},
	}
}

func newMutating(client kubernetes.Interface, factory informers.SharedInformerFactory, options Options) *configuration {
	informer := factory.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
	return &configuration{
		resource: admissionregistrationv1.Resource("mutatingwebhookconfigurations").String(), informer: informer,
		observe: func() *observation {
			found, ok := get[*admissionregistrationv1.MutatingWebhookConfiguration](informer, options.Configurations)
			if !ok {
				return nil
			}
			observed := &observation{object: found}
			for i := range found.Webhooks {
				observed.add(found.Webhooks[i].Name, found.Webhooks[i].ClientConfig)
			}
			return observed
		},
		apply: func(ctx context.Context, observed *observation, bundle []byte) error {
			desired := applyv1.MutatingWebhookConfiguration(observed.object.GetName()).
				WithResourceVersion(observed.object.GetResourceVersion())
			for _, name := range observed.webhooks {
				desired.WithWebhooks(applyv1.MutatingWebhook().WithName(name).
					WithClientConfig(applyv1.WebhookClientConfig().WithCABundle(bundle...)))
			}
			_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Apply(ctx, desired, applyOptions(options))
			return err
		},
	}
}

// get returns a cluster-scoped object from the cache.
func get[T any](informer cache.SharedIndexInformer, name string) (T, bool) {
	object, exists, err := informer.GetStore().GetByKey(name)
	typed, ok := object.(T)
	return typed, ok && exists && err == nil
}

// add adds a webhook.
func (o *observation) add(name string, client admissionregistrationv1.WebhookClientConfig) {
	o.webhooks = append(o.webhooks, name)
	o.bundles = append(o.bundles, client.CABundle)
}
