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

// Forbid creates the ResourceQuota "none" in a namespace, which refuses new objects of a resource,
// such as "pods" or "count/deployments.apps", and waits until it has a status. The returned
// function deletes it.
func (c *Cluster) Forbid(ctx context.Context, t testing.TB, namespace string, refused corev1.ResourceName) (allow func(context.Context) error) {
	t.Helper()
	quotas := c.Client.CoreV1().ResourceQuotas(namespace)
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{refused: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(ctx, t, "quota in force", func(ctx context.Context) (bool, error) {
		found, err := quotas.Get(ctx, "none", metav1.GetOptions{})
		return err == nil && found.Status.Hard != nil, err
	})
	return func(ctx context.Context) error { return quotas.Delete(ctx, "none", metav1.DeleteOptions{}) }
}
