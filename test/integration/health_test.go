// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// brokenImage is in a registry that does not exist.
const brokenImage = "registry.invalid/nginx:1"

func TestReadyFollowsPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.Named("web")
	web.Spec.Image = brokenImage
	ns.Create(web)
	app := ns.Await("web", "deployed and waiting for pods", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, releasev1alpha1.ReasonInstallSucceeded) &&
			apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, apimeta.ReasonProgressing) &&
			apps.Has(app, apimeta.ConditionReconciling, metav1.ConditionTrue, apimeta.ReasonProgressing)
	})
	if app.Status.ObservedGeneration != 1 {
		t.Errorf("observedGeneration is %d", app.Status.ObservedGeneration)
	}
	if !apps.IsAbsent(app, releasev1alpha1.ConditionFailed) {
		t.Errorf("conditions say that it failed: %+v", app.Status.Conditions)
	}

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Image = "nginx:1.27-alpine" })
	if app = ns.AwaitReady("web"); apps.Revision(app) != 2 {
		t.Errorf("revision %d, want 2", apps.Revision(app))
	}
}

func TestProgressDeadlineExceeded(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.Named("web")
	web.Spec.Image = brokenImage
	ns.Create(web)
	ns.Await("web", "deployed", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "")
	})
	// The chart does not set the deadline, which is ten minutes by default.
	patch(t, shared.Dynamic.Resource(ownedKinds[0].resource).Namespace(ns.Name), "web", `{"spec": {"progressDeadlineSeconds": 1}}`)
	app := ns.Await("web", "stalled", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, apimeta.ReasonUnhealthy) })
	if got := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(got, "Deployment web") {
		t.Errorf("Ready does not name the Deployment: %s", got)
	}
	if !apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "") {
		t.Errorf("Deployed is %+v", apps.Condition(app, releasev1alpha1.ConditionDeployed))
	}
	ns.AwaitEvent("web", apimeta.ReasonUnhealthy, "Deployment web")

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Image = "nginx:1.27-alpine" })
	if app = ns.AwaitReady("web"); !apps.IsAbsent(app, apimeta.ConditionStalled) {
		t.Errorf("still stalled: %+v", app.Status.Conditions)
	}
}

// TestRolloutRestart does what kubectl rollout restart does: the pods are replaced because of a
// field that is not the chart's.
func TestRolloutRestart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	const annotation = "kubectl.kubernetes.io/restartedAt"
	patch(t, shared.Dynamic.Resource(ownedKinds[0].resource).Namespace(ns.Name), "web",
		`{"spec": {"template": {"metadata": {"annotations": {"`+annotation+`": "2026-01-01T00:00:00Z"}}}}}`)
	ns.AwaitQuiet(quiet)
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	if app := ns.AwaitReady("web"); apps.Revision(app) != 2 {
		t.Errorf("revision %d, want 2", apps.Revision(app))
	}
	if got := ns.Objects("web").Deployment.Spec.Template.Annotations[annotation]; got != "2026-01-01T00:00:00Z" {
		t.Errorf("the restart was undone: %s is %q", annotation, got)
	}
	assertRecords(t, ns, "web v1 superseded", "web v2 deployed")
}
