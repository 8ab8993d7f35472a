// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/serving"
)

const (
	// firstRetry and maxRetry bound the time between two attempts after an error.
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// Options configure an Authority.
type Options struct {
	// Name is the common name of the certificates, and the field manager of the Secret and of
	// caBundle.
	Name string
	// Namespace and Secret name the Secret with the certificates. It is created if it is absent.
	Namespace, Secret string
	// Hosts are the DNS names and IP addresses of the serving certificate. At least one.
	Hosts []string
	// Configurations is the name of the ValidatingWebhookConfiguration and of the
	// MutatingWebhookConfiguration whose webhooks get the caBundle. The authority waits for an
	// absent configuration.
	Configurations string
	// WatchErrors returns the watch error handler of an informer. Its argument describes the
	// watched objects. Optional.
	WatchErrors func(watched string) cache.WatchErrorHandlerWithContext
	// Clock is the clock for renewals.
	Clock clock.WithTicker
}

// Authority is a source of certificates that it signs itself. Use NewAuthority.
type Authority struct {
	options        Options
	client         kubernetes.Interface
	factories      []informers.SharedInformerFactory
	secret         cache.SharedIndexInformer
	configurations []*configuration
	// secrets combines the cached Secret with the last write of this process.
	secrets *overlay.View[*corev1.Secret]
	// changed receives a value after a change of the Secret or of a configuration.
	changed chan struct{}
	current atomic.Pointer[tls.Certificate]
}

// NewAuthority returns an authority. Run issues and renews its certificates.
func NewAuthority(client kubernetes.Interface, options Options) (*Authority, error) {
	named := func(name, namespace string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
			informers.WithTweakListOptions(func(list *metav1.ListOptions) {
				list.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			}))
	}
	secrets, webhooks := named(options.Secret, options.Namespace), named(options.Configurations, metav1.NamespaceAll)
	a := &Authority{
		options: options, client: client, factories: []informers.SharedInformerFactory{secrets, webhooks},
		secret: secrets.Core().V1().Secrets().Informer(), changed: make(chan struct{}, 1),
		configurations: []*configuration{
			newValidating(client, webhooks, options), newMutating(client, webhooks, options),
		},
	}
	wake := func(any) {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
	a.secrets = overlay.New[*corev1.Secret](a.secret.GetIndexer())
	_, err := a.secret.AddEventHandler(handlerFuncs(wake))
	err = errors.Join(err, a.reportErrors(a.secret, "webhook certificates"))
	for _, c := range a.configurations {
		_, err2 := c.informer.AddEventHandler(handlerFuncs(wake))
		err = errors.Join(err, err2, a.reportErrors(c.informer, c.resource))
	}
	if err != nil {
		return nil, fmt.Errorf("watching certificates: %w", err)
	}
	return a, nil
}

// reportErrors sets the watch error handler of an informer.
func (a *Authority) reportErrors(informer cache.SharedIndexInformer, watched string) error {
	if a.options.WatchErrors == nil {
		return nil
	}
	return informer.SetWatchErrorHandlerWithContext(a.options.WatchErrors(watched))
}

func handlerFuncs(changed func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
	}
}

// Certificate returns the serving certificate.
func (a *Authority) Certificate() (*tls.Certificate, error) {
	if certificate := a.current.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, fmt.Errorf("there is no serving certificate yet: the Secret %s/%s and the webhook configurations %s have not been read; "+
		"check that the operator may read and write them", a.options.Namespace, a.options.Secret, a.options.Configurations)
}

// Run keeps the Secret, the serving certificate and the caBundles current until ctx ends.
func (a *Authority) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	synced := []cache.InformerSynced{a.secret.HasSynced}
	running.Go(func() { a.secret.RunWithContext(ctx) })
	for _, c := range a.configurations {
		synced = append(synced, c.informer.HasSynced)
		running.Go(func() { c.informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	retry := firstRetry
	for {
		var due <-chan time.Time
		next, err := a.ensure(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			logFailure(ctx, err, retry)
			due = a.options.Clock.After(retry)
			retry = min(2*retry, maxRetry)
		default:
			retry = firstRetry
			// A renewal that waits for a webhook configuration starts when the configuration
			// changes.
			if wait := next.Sub(a.options.Clock.Now()); wait > 0 {
				due = a.options.Clock.After(wait)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
		case <-due:
		}
	}
}

// logFailure logs why the certificates are not current. A conflict means that another replica was
// faster.
func logFailure(ctx context.Context, err error, retry time.Duration) {
	logger := klog.FromContext(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		logger.V(2).Info("Another replica was faster; reading the certificates of the webhook again", "err", err, "after", retry)
		return
	}
	logger.Error(err, "The certificates of the webhook are not current; trying again", "after", retry)
}

// ensure makes the Secret, the serving certificate and the caBundles current once, and returns when
// the next renewal is due.
func (a *Authority) ensure(ctx context.Context) (next time.Time, err error) {
	secret, err := a.observeSecret(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var observed serving.Material
	if secret != nil {
		observed = serving.ParseMaterial(secret.Data)
	}
	desired, done, err := observed.Renew(a.options.Name, a.options.Hosts, a.isPublished(observed.Bundle()), a.options.Clock.Now())
	if err != nil {
		return time.Time{}, err
	}
	if done.Authority || done.Serving {
		if err := a.writeSecret(ctx, secret, desired); err != nil {
			return time.Time{}, err
		}
		klog.FromContext(ctx).Info("Renewed the certificates of the webhook", "secret", klog.KRef(a.options.Namespace, a.options.Secret),
			"ca", done.Authority, "serving", done.Serving, "expires", desired.Certificate().Leaf.NotAfter)
	}
	a.current.Store(desired.Certificate())
	var errs []error
	for _, c := range a.configurations {
		errs = append(errs, c.publish(ctx, desired.Bundle()))
	}
	return desired.Wake(), errors.Join(errs...)
}

// observeSecret returns the Secret, or nil if it is absent. It reads the Secret from the API
// server, unless the cached Secret matches the configurations: a configuration must not get the
// bundle of an outdated Secret.
func (a *Authority) observeSecret(ctx context.Context) (*corev1.Secret, error) {
	if secret, ok := a.secrets.Get(a.options.Namespace, a.options.Secret); ok && a.isPublished(secret.Data[serving.CABundleKey]) {
		return secret, nil
	}
	live, err := a.client.CoreV1().Secrets(a.options.Namespace).Get(ctx, a.options.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the webhook: %w", err)
	}
	return live, nil
}

// isPublished reports whether all configurations have a bundle.
func (a *Authority) isPublished(bundle []byte) bool {
	return !slices.ContainsFunc(a.configurations, func(c *configuration) bool { return !c.has(bundle) })
}

// writeSecret writes the certificates. If two replicas write at the same time, the second gets a
// conflict.
func (a *Authority) writeSecret(ctx context.Context, observed *corev1.Secret, desired serving.Material) error {
	data, err := desired.Encode()
	if err != nil {
		return err
	}
	secrets, manager := a.client.CoreV1().Secrets(a.options.Namespace), a.options.Name
	var written *corev1.Secret
	if observed == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.options.Namespace, Name: a.options.Secret},
			Type:       corev1.SecretTypeTLS, Data: data,
		}
		written, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: manager})
	} else {
		secret := observed.DeepCopy()
		secret.Data = data
		written, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: manager})
	}
	if err != nil {
		return fmt.Errorf("writing the certificates of the webhook: %w", err)
	}
	a.secrets.Wrote(written)
	return nil
}
