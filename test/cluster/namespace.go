// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxNamespacePrefix leaves room for the random part of a namespace's name, and keeps names that
// are derived from that name readable.
const maxNamespacePrefix = 30

// Namespace creates a namespace for one test. At the end of the test, the namespace is deleted
// without waiting, unless [Options] keep it. Pods can be created in the namespace at once.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	return c.CreateNamespace(t, metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())})
}

// CreateNamespace creates a namespace like [Cluster.Namespace], with the given metadata, and
// returns its name.
func (c *Cluster) CreateNamespace(t testing.TB, metadata metav1.ObjectMeta) string {
	t.Helper()
	namespaces := c.Client.CoreV1().Namespaces()
	created, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metadata}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() {
		if c.keepNamespaces {
			return
		}
		if err := namespaces.Delete(context.WithoutCancel(t.Context()), created.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("delete namespace: %v", err)
		}
	})
	Eventually(t.Context(), t, fmt.Sprintf("default ServiceAccount in %s", created.Name), func(ctx context.Context) (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts(created.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	})
	return created.Name
}

// namespacePrefix derives the beginning of a namespace's name, such as drift-service-changed-, from
// the name of a test, such as TestDrift/Service_changed.
func namespacePrefix(test string) string {
	letters := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, strings.TrimPrefix(test, "Test"))
	letters = strings.Trim(letters[:min(len(letters), maxNamespacePrefix)], "-")
	if letters == "" {
		letters = "test"
	}
	return letters + "-"
}
