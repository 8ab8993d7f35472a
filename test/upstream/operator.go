// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net/http"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Operator is the part of an upstream operator that keeps the release of one owner: by the Helm SDK
// with client-side apply, under the name of its binary, and with references to the owner on objects
// and records.
type Operator struct {
	// Owner is the controller reference to the owner, and Namespace the namespace of the owner and
	// of its release.
	Owner     metav1.OwnerReference
	Namespace string
	// Binary is the name of the operator's binary.
	Binary string
}

// Wrap sends Helm's requests under the name of the binary. In Helm, the field manager is a global
// of the process.
func (o Operator) Wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(sent *http.Request) (*http.Response, error) {
			query := sent.URL.Query()
			if query.Has("fieldManager") {
				sent = sent.Clone(sent.Context())
				query.Set("fieldManager", o.Binary)
				sent.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(sent)
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// Adapt adds the references to the owner to all objects and records of an operation.
func (o Operator) Adapt(cfg *action.Configuration, client kubernetes.Interface) {
	cfg.KubeClient = owningClient{Interface: cfg.KubeClient, operator: o}
	cfg.Releases = storage.Init(driver.NewSecrets(owningSecrets{client.CoreV1().Secrets(o.Namespace), o.Owner}))
}

// owningClient is Helm's client with owner references, which are not in the stored manifest. An
// object that cannot have a reference to the owner gets annotations.
type owningClient struct {
	kube.Interface

	operator Operator
}

// Build implements kube.Interface.
func (c owningClient) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	list, err := c.Interface.Build(reader, validate)
	if err != nil {
		return nil, err
	}
	owner, namespace := c.operator.Owner, c.operator.Namespace
	return list, list.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		object, err := meta.Accessor(info.Object)
		if err != nil {
			return err
		}
		if info.Namespace == namespace {
			object.SetOwnerReferences([]metav1.OwnerReference{owner})
			return nil
		}
		annotations := map[string]string{
			helm.PrimaryResourceAnnotation:     namespace + "/" + owner.Name,
			helm.PrimaryResourceTypeAnnotation: schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind().String(),
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
