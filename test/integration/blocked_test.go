// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestUnwritableAuditNamespace(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	// The first record creates the namespace.
	ns.Create(apps.Waiting("first", "missing"))
	ns.Await("first", "waiting", isWaiting)
	ns.Delete("first")
	ns.AwaitGone("first")
	allow := policy{
		name: "records-" + ns.Name, namespace: apps.AuditNamespace, version: "v1", resource: "configmaps",
		expression: fmt.Sprintf(`!has(object.metadata.labels) || object.metadata.labels[?%q].orValue("") != %q`,
			v1alpha1.LabelSourceNamespace, ns.Name),
		message: `"the archive is closed"`,
	}.apply(t, func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "probe-" + ns.Name, Labels: map[string]string{v1alpha1.LabelSourceNamespace: ns.Name},
		}}
		_, err := shared.Client.CoreV1().ConfigMaps(apps.AuditNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})

	ns.Delete("web")
	app := ns.Await("web", "deletion held up", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAuditFailed)
	})
	if got := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(got, "the archive is closed") {
		t.Errorf("Ready does not say why: %s", got)
	}
	ns.AwaitEvent("web", v1alpha1.ReasonAuditFailed, "the archive is closed")
	if objects := ns.Objects("web").All(); len(objects) != 4 {
		t.Errorf("objects were deleted before the record was written: left are %v", objects)
	}

	allow()
	gone := ns.AwaitGone("web").App
	if gone.DeletionTimestamp == nil {
		t.Error("it never had a deletionTimestamp")
	}
	if records := ns.AuditRecords("web"); len(records) != 1 {
		t.Errorf("%d audit records, want one", len(records))
	}
	assertNothingInstalled(t, ns, "web")
}

func TestRefusedUninstall(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	services := shared.Client.CoreV1().Services(ns.Name)
	allow := policy{
		name: "deletes-" + ns.Name, namespace: ns.Name, version: "v1", resource: "services",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		expression: "false", message: `"this Service is needed"`,
	}.apply(t, func(ctx context.Context) error {
		return services.Delete(ctx, "web", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})

	ns.Delete("web")
	app := ns.Await("web", "deletion held up", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, releasev1alpha1.ReasonUninstallFailed)
	})
	if got := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(got, "this Service is needed") {
		t.Errorf("Ready does not say why: %s", got)
	}
	ns.AwaitEvent("web", releasev1alpha1.ReasonUninstallFailed, "this Service is needed")

	allow()
	ns.AwaitGone("web")
	assertNothingInstalled(t, ns, "web")
	if records := ns.AuditRecords("web"); len(records) != 1 {
		t.Errorf("%d audit records, want one", len(records))
	}
}

func TestRefusedFinalizerRemoval(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	allow := policy{
		name: "finalizers-" + ns.Name, namespace: ns.Name,
		group: v1alpha1.SchemeGroupVersion.Group, version: v1alpha1.SchemeGroupVersion.Version, resource: "demoapps",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		expression: fmt.Sprintf(`has(object.metadata.finalizers) && object.metadata.finalizers.exists(f, f == %q)`, v1alpha1.Finalizer),
		message:    `"finalizers stay where they are"`,
	}.apply(t, func(ctx context.Context) error {
		_, err := ns.Demo.Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})

	ns.Delete("web")
	app := ns.Await("web", "deletion held up", func(app *v1alpha1.DemoApp) bool {
		return strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, "finalizers stay where they are")
	})
	reason := apps.Condition(app, apimeta.ConditionReady).Reason
	ns.AwaitEvent("web", reason, "finalizers stay where they are")
	assertNothingInstalled(t, ns, "web")

	allow()
	ns.AwaitGone("web")
	if records := ns.AuditRecords("web"); len(records) != 1 {
		t.Errorf("%d audit records, want one", len(records))
	}
}
