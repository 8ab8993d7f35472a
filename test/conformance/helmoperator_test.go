// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/helm"
)

// helmOperator is a client that keeps the release as operator-sdk's helm-operator and helm-operator-plugins do: by the
// Helm SDK with client-side apply, under the name of its binary, and with references to the owner on objects and records.
type helmOperator struct {
	*stock

	owner metav1.OwnerReference
}

// ownerName is the name of the owners of releases. They are ConfigMaps, which need no CRD.
const ownerName = "owner"

// newHelmOperator creates the owner of a release, and returns its operator, whose binary has the name.
func newHelmOperator(t testing.TB, namespace, binary string) *helmOperator {
	t.Helper()
	owner, err := shared.Client.CoreV1().ConfigMaps(namespace).
		Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ownerName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := &helmOperator{
		stock: newStock(t, namespace, &journal{}),
		owner: *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}
	o.clientSide = true
	wrapConfig := o.flags.WrapConfigFn
	o.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config = wrapConfig(config)
		config.Wrap(managedAs(binary))
		return config
	}
	o.adapt = func(cfg *action.Configuration) {
		cfg.KubeClient = owningClient{Interface: cfg.KubeClient, owner: o.owner, namespace: namespace}
		secrets := owningSecrets{SecretInterface: shared.Client.CoreV1().Secrets(namespace), owner: o.owner}
		cfg.Releases = storage.Init(driver.NewSecrets(secrets))
	}
	return o
}

// managedAs changes the field manager of Helm's requests, which is a global of the process.
func managedAs(manager string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(sent *http.Request) (*http.Response, error) {
			query := sent.URL.Query()
			if query.Get("fieldManager") == helm.FieldManager {
				sent = sent.Clone(sent.Context())
				query.Set("fieldManager", manager)
				sent.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(sent)
		})
	}
}

// owningClient is Helm's client with owner references, which are not in the stored manifest. An object that cannot have
// a reference to the owner gets annotations.
type owningClient struct {
	kube.Interface

	owner     metav1.OwnerReference
	namespace string
}

// Build implements kube.Interface.
func (c owningClient) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	list, err := c.Interface.Build(reader, validate)
	if err != nil {
		return nil, err
	}
	return list, list.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		object, err := meta.Accessor(info.Object)
		if err != nil {
			return err
		}
		if info.Namespace == c.namespace {
			object.SetOwnerReferences([]metav1.OwnerReference{c.owner})
			return nil
		}
		annotations := map[string]string{
			helm.PrimaryResourceAnnotation:     c.namespace + "/" + c.owner.Name,
			helm.PrimaryResourceTypeAnnotation: c.owner.Kind,
		}
		for key, value := range object.GetAnnotations() {
			annotations[key] = value
		}
		object.SetAnnotations(annotations)
		return nil
	})
}

// owningSecrets writes Secrets with a reference to the owner.
type owningSecrets struct {
	corev1client.SecretInterface

	owner metav1.OwnerReference
}

// Create implements SecretInterface.
func (s owningSecrets) Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	secret.OwnerReferences = append(secret.OwnerReferences, s.owner)
	return s.SecretInterface.Create(ctx, secret, options)
}

// Update implements SecretInterface.
func (s owningSecrets) Update(ctx context.Context, secret *corev1.Secret, options metav1.UpdateOptions) (*corev1.Secret, error) {
	secret.OwnerReferences = append(secret.OwnerReferences, s.owner)
	return s.SecretInterface.Update(ctx, secret, options)
}

// setStatus writes a status into the newest record, as an operation does that did not end.
func (o *helmOperator) setStatus(t *testing.T, status common.Status) {
	t.Helper()
	newest := newestRelease(t.Context(), t, o.namespace)
	newest.Info.Status = status
	if err := o.configuration().Releases.Update(newest); err != nil {
		t.Fatal(err)
	}
}

// live returns the objects of the release, by kind and name.
func (o *helmOperator) live(ctx context.Context, t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, p := range []place{
		{corev1.SchemeGroupVersion.WithResource("configmaps"), o.namespace},
		{corev1.SchemeGroupVersion.WithResource("services"), o.namespace},
		{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), o.namespace},
		{appsGroup.WithResource("deployments"), o.namespace},
		{appsGroup.WithResource("replicasets"), o.namespace},
		{batchGroup.WithResource("jobs"), o.namespace},
		{rbacGroup.WithResource("clusterroles"), ""},
	} {
		list, err := shared.Dynamic.Resource(p.GroupVersionResource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			ours := object.GetNamespace() != "" && object.GetName() != "kube-root-ca.crt" && object.GetName() != ownerName
			if ours || object.GetName() == fmt.Sprintf("%s-%s", o.namespace, releaseName) {
				found[object.GetKind()+" "+object.GetName()] = object
			}
		}
	}
	return found
}
