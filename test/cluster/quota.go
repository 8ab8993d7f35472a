// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForbidPods creates the ResourceQuota "none" in a namespace, which refuses new pods, and waits until
// it is in force. The returned function deletes it.
func (c *Cluster) ForbidPods(t testing.TB, namespace string) (allow func()) {
	t.Helper()
	quotas := c.Client.CoreV1().ResourceQuotas(namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t.Context(), t, "quota in force", func(ctx context.Context) (bool, error) {
		found, err := quotas.Get(ctx, "none", metav1.GetOptions{})
		return err == nil && found.Status.Hard != nil, err
	})
	return func() {
		t.Helper()
		if err := quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
