// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

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
