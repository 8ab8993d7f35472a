// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/serving"
)

// maxKey is the maximum size of a cached key of a Secret, in bytes: certificates of the operator have
// about one KiB.
const maxKey = 8 << 10

// Secrets are the Secrets with the label of certificates. They are children of PostgreSQLs. Their
// content is read back, because only the Secret has it.
type Secrets struct{ *child.Labeled[*corev1.Secret] }

// New returns the Secrets of all watched namespaces.
func New(env child.Informers, kube kubernetes.Interface) (Secrets, error) {
	secrets, err := child.NewLabeled(env, "certificate Secrets", databasev1.LabelCertificate,
		func(namespace string, indexers cache.Indexers, tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
			return corev1informers.NewFilteredSecretInformer(kube, namespace, 0, indexers, tweak)
		}, reduce)
	return Secrets{secrets}, err
}

// reduce keeps the keys of certificates. A key that is too large becomes empty, so it is renewed.
func reduce(whole *corev1.Secret, metadata metav1.ObjectMeta) *corev1.Secret {
	reduced := &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{}}
	if len(metadata.OwnerReferences) == 0 {
		return reduced // It is nobody's certificate, so its content is not needed.
	}
	for _, key := range []string{serving.CABundleKey, serving.CASignerKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if value := whole.Data[key]; len(value) <= maxKey {
			reduced.Data[key] = value
		}
	}
	return reduced
}

// Of returns the content of the Secret of an owner. It returns false if the Secret is not cached, or
// belongs to others.
func (s Secrets) Of(owner metav1.Object, name string) (serving.Material, bool) {
	secret, cached := s.Get(owner.GetNamespace(), name)
	if !cached || !metav1.IsControlledBy(secret, owner) {
		return serving.Material{}, false
	}
	return serving.ParseMaterial(secret.Data), true
}
