// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestRefusedUpgradeIsRolledBack: an upgrade that is refused halfway leaves no changes.
func TestRefusedUpgradeIsRolledBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.Remediation = &releasev1alpha1.Remediation{}
	ns.Create(app)
	ns.AwaitReady("web")
	attempt := func(ctx context.Context) error {
		_, err := shared.Client.CoreV1().Services(ns.Name).Patch(ctx, "web", types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "/spec/ports/0/port", "value": 6666}]`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	allow := policy{
		name: "services-" + ns.Name, namespace: ns.Name, version: "v1", resource: "services",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		expression: "object.spec.ports.all(p, p.port != 6666)",
		message:    `"not this port"`,
	}.apply(t, attempt)

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message, spec.Service.Port = "Half of it", 6666 })
	rolledBack := ns.Await("web", "rolled back", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, releasev1alpha1.ReasonRolledBack) })
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; strings.Contains(got, "Half of it") {
		t.Errorf("index.html is %q", got)
	}
	if message := apps.Condition(rolledBack, apimeta.ConditionReady).Message; !strings.Contains(message, "not this port") {
		t.Errorf("the message does not say what failed: %s", message)
	}
	if got := rolledBack.Status.LastUpgradeReason; got != releasev1alpha1.UpgradeReasonRemediation {
		t.Errorf("lastUpgradeReason is %s", got)
	}
	ns.AwaitEvent("web", "RolledBack", "Rolled back")
	ns.AwaitQuiet(quiet)
	if records := ns.Records("web"); len(records) > 3 {
		t.Errorf("revisions: %v", records)
	}
	ns.Objects("web")
	patch(t, shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name), "web", ownedKinds[2].change)
	ns.Await("web", "drift of the old revision corrected", func(*v1alpha1.DemoApp) bool {
		return strings.Contains(ns.Objects("web").ConfigMap.Data["index.html"], "<h1>")
	})

	allow()
	cluster.Eventually(t.Context(), t, "the policy is gone", func(ctx context.Context) (bool, error) { return attempt(ctx) == nil, nil })
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "All of it" })
	app = ns.AwaitReady("web")
	if !apps.IsAbsent(app, releasev1alpha1.ConditionRemediated) {
		t.Error("Remediated is still there")
	}
	if got := ns.Objects("web").Service.Spec.Ports[0].Port; got != 6666 {
		t.Errorf("port is %d", got)
	}
}

// TestUnhealthyUpgrade: an upgrade whose pods never start fails, and is rolled back after its last
// retry.
func TestUnhealthyUpgrade(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.WaitForReady = true
	app.Spec.Timeout = &metav1.Duration{Duration: 20 * time.Second}
	app.Spec.Remediation = &releasev1alpha1.Remediation{Retries: ptr.To[int32](1), Strategy: releasev1alpha1.RemediationRollback}
	ns.Create(app)
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) {
		spec.NodeName, spec.Timeout = "nowhere", &metav1.Duration{Duration: 8 * time.Second}
	})
	stalled := ns.Await("web", "given up", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, releasev1alpha1.ReasonRolledBack) })
	if got := stalled.Status.Failures.Upgrades; got != 2 {
		t.Errorf("%d upgrades failed, want 2", got)
	}
	ns.AwaitEvent("web", releasev1alpha1.ReasonHealthTimeout, "Revision 2 did not become healthy in time")
	if got := apps.Revision(stalled); got != 4 {
		t.Errorf("revision is %d, want 4", got)
	}
	if affinity := ns.Objects("web").Deployment.Spec.Template.Spec.Affinity; affinity != nil {
		t.Errorf("affinity is %v", affinity)
	}
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) {
		spec.NodeName, spec.Timeout = "", &metav1.Duration{Duration: 20 * time.Second}
	})
	ns.AwaitReady("web")
}
