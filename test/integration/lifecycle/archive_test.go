// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestMissingAuditNamespaceIsCreated(t *testing.T) {
	ns := newNamespace(t)
	archive := "archive-of-" + ns.Name
	t.Cleanup(func() {
		err := shared.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), archive, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	cluster.StartOperator(t.Context(), t, shared, "--audit-namespace="+archive)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	if _, err := shared.Client.CoreV1().Namespaces().Get(t.Context(), archive, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the audit namespace exists before the first record (%v)", err)
	}
	ns.Delete("web")
	ns.AwaitGone("web")
	records, err := shared.Client.CoreV1().ConfigMaps(archive).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelSourceName + "=web"})
	if err != nil {
		t.Fatal(err)
	}
	if len(records.Items) != 1 {
		t.Errorf("%d audit records", len(records.Items))
	}
}
