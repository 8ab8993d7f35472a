// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestMissingAuditNamespace: the operator may not create namespaces. Without the namespace of the
// audit records, a deletion waits, and its message says what to do.
func TestMissingAuditNamespace(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
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
	ns.Delete("web")
	waiting := ns.Await("web", "waits", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAuditFailed)
	})
	if message := apps.Condition(waiting, apimeta.ConditionReady).Message; !strings.Contains(message, "create the namespace "+archive) {
		t.Errorf("message is %q", message)
	}

	_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: archive}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	ns.AwaitGone("web")
	assertAudited(t, archive, ns.Name)
}
