// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func suspend(is bool) func(*v1alpha1.DemoAppSpec) {
	return func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = is }
}

// isHeld returns a condition: the newest generation waits for this reason.
func isHeld(reason string) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, reason) &&
			apps.Has(app, apimeta.ConditionReconciling, metav1.ConditionTrue, reason) &&
			apps.Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation
	}
}

// writeOver changes the page of a DemoApp as a user with kubectl does.
func writeOver(t *testing.T, ns *apps.Namespace, name string) {
	t.Helper()
	_, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"data": {"index.html": "not ours"}}`), metav1.PatchOptions{FieldManager: "another-client"})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSuspendHoldsEverything(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.Change("web", suspend(true))
	app := ns.Await("web", "suspended and ready", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && apps.Has(app, releasev1alpha1.ConditionSuspended, metav1.ConditionTrue, releasev1alpha1.ReasonSuspendedBySpec)
	})
	handled := app.Status.ObservedGeneration

	writeOver(t, ns, "web")
	app = ns.Await("web", "drifted", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, releasev1alpha1.ReasonObjectsChanged)
	})
	if message := apps.Condition(app, releasev1alpha1.ConditionDrifted).Message; message != "ConfigMap web (changed)" || !apps.IsReady(app) {
		t.Errorf("drift %q, Ready %+v", message, apps.Condition(app, apimeta.ConditionReady))
	}
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "later" })
	app = ns.Await("web", "held", isHeld(releasev1alpha1.ReasonSuspendedBySpec))
	if app.Status.ObservedGeneration != handled {
		t.Errorf("observedGeneration is %d, want %d", app.Status.ObservedGeneration, handled)
	}
	ns.AwaitEvent("web", "Held", releasev1alpha1.ReasonSuspendedBySpec, "A change waits until spec.suspend is false")
	ns.AwaitQuiet(quiet)
	if page := ns.Objects("web").ConfigMap.Data["index.html"]; page != "not ours" {
		t.Errorf("the page is %q", page)
	}

	ns.Change("web", suspend(false))
	app = ns.AwaitReady("web")
	if page := ns.Objects("web").ConfigMap.Data["index.html"]; !strings.Contains(page, "later") {
		t.Errorf("the page is %q", page)
	}
	if !apps.IsAbsent(app, releasev1alpha1.ConditionSuspended) || !apps.IsAbsent(app, releasev1alpha1.ConditionDrifted) || apps.Revision(app) != 2 {
		t.Errorf("revision %d with %+v", apps.Revision(app), app.Status.Conditions)
	}
}

func TestSuspendExample(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	if err := shared.ApplyFiles(t.Context(), ns.Name, "artifacts/examples/suspend.yaml"); err != nil {
		t.Fatal(err)
	}
	ns.Await("suspended", "held", isHeld(releasev1alpha1.ReasonSuspendedBySpec))
}
