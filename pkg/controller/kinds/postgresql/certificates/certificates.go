// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/serving"
)

// maxSizes are the keys of a Secret with certificates of the operator, and the maximum size of
// their values, in bytes. During a rotation there are two CAs. The certificate has 16 names of at
// most 150 bytes.
var maxSizes = map[string]int{
	serving.CABundleKey: 4 << 10, serving.CASignerKey: 1 << 10, corev1.TLSCertKey: 6 << 10, corev1.TLSPrivateKeyKey: 1 << 10,
}

// Secrets are the Secrets with the certificates that the operator made. They are children of
// PostgreSQLs. Their content is read back, because only the Secret has it.
type Secrets struct {
	*child.Labeled[*corev1.Secret]

	kube kubernetes.Interface
}

// Name is the name of the Secret of a PostgreSQL.
func Name(postgreSQL string) string { return postgreSQL + "-tls" }

// New returns the Secrets of all watched namespaces.
func New(env child.Informers, kube kubernetes.Interface) (Secrets, error) {
	secrets, err := child.NewLabeled(env, "certificate Secrets", databasev1.LabelCertificate, kube, kube.CoreV1().Secrets, reduce)
	return Secrets{secrets, kube}, err
}

// reduce keeps the content of the one Secret that can have the certificates of a PostgreSQL, by its
// name and its controller. Of other Secrets with the label, which anyone can create, nothing is
// kept.
func reduce(whole *corev1.Secret, metadata metav1.ObjectMeta) *corev1.Secret {
	reduced := &corev1.Secret{ObjectMeta: metadata}
	if owner := metadata.Labels[databasev1.LabelCertificate]; isOf(owner, whole) {
		reduced.Data = bounded(whole.Data)
	}
	return reduced
}

func isOf(postgreSQL string, secret *corev1.Secret) bool {
	controller := metav1.GetControllerOf(secret)
	return secret.Name == Name(postgreSQL) && controller != nil && controller.Name == postgreSQL &&
		controller.Kind == "PostgreSQL" && controller.APIVersion == databasev1.SchemeGroupVersion.String()
}

// bounded keeps the keys of certificates. A value that is too large is left out, so it is renewed.
func bounded(data map[string][]byte) map[string][]byte {
	kept := map[string][]byte{}
	for key, size := range maxSizes {
		if value, ok := data[key]; ok && len(value) <= size {
			kept[key] = value
		}
	}
	return kept
}

// Issued are the certificates of a PostgreSQL.
type Issued struct {
	// Data is the content of the Secret.
	Data map[string][]byte
	// Renewal is the time of the next renewal.
	Renewal time.Time
	// Exists says that the Secret exists and belongs to the PostgreSQL. It may have older
	// certificates.
	Exists bool
}

// Issue returns the certificates of a PostgreSQL with the names of its services, after the renewals
// that are due.
func (s Secrets) Issue(ctx context.Context, owner metav1.Object, services []string, domain naming.Domain, now time.Time) (Issued, error) {
	material, exists, err := s.of(ctx, owner)
	if err != nil {
		return Issued{}, err
	}
	next, _, err := material.Renew(owner.GetName(), namesOf(services, owner.GetNamespace(), domain), true, now)
	if err != nil {
		return Issued{}, err
	}
	data, err := next.Encode()
	return Issued{data, next.Wake(), exists}, err
}

// namesOf returns the names by which clients and standbys reach the servers.
func namesOf(services []string, namespace string, domain naming.Domain) []string {
	names := []string{"localhost"}
	for _, service := range services {
		names = append(names, service, service+"."+namespace, naming.ServiceHost(service, namespace), domain.Host(service, namespace))
	}
	return names
}

// of returns the content of the Secret of an owner. It returns false if the Secret is absent or
// belongs to another owner.
//
// A Secret without the label is not cached: the label was removed, or the cache lags behind. It is
// read from the API server, so that its certificates are not replaced, and it gets the label again.
func (s Secrets) of(ctx context.Context, owner metav1.Object) (material serving.Material, exists bool, err error) {
	secret, cached := s.Get(owner.GetNamespace(), Name(owner.GetName()))
	if !cached || secret.Labels[databasev1.LabelCertificate] != owner.GetName() {
		if secret, err = s.live(ctx, owner.GetNamespace(), Name(owner.GetName())); secret == nil || err != nil {
			return serving.Material{}, false, err
		}
	}
	if !metav1.IsControlledBy(secret, owner) {
		return serving.Material{}, false, nil
	}
	return serving.ParseMaterial(bounded(secret.Data)), true, nil
}

// live reads a Secret. It returns nil for an absent Secret.
func (s Secrets) live(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := s.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return secret, nil
}

// Lack names the missing parts of a user's Secret with a certificate. It returns an empty text if
// the Secret lacks nothing.
func (s Secrets) Lack(ctx context.Context, namespace, name string) (string, error) {
	secret, err := s.live(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	if secret == nil {
		return fmt.Sprintf("Secret %q does not exist: create it, or correct the name", name), nil
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(secret.Data[key]) == 0 {
			return fmt.Sprintf("Secret %q lacks the key %s: add it", name, key), nil
		}
	}
	return "", nil
}
