// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

var (
	isUp   = condition(releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, releasev1alpha1.ReasonInstallSucceeded)
	isDown = condition(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonUpgradeFailed)
)

func TestDeletedDependencyHoldsUpgrade(t *testing.T) {
	w := newWorld(t)
	w.makeAuditNamespace()
	w.create(newApp("a", func(app *v1alpha1.DemoApp) { app.Finalizers = []string{"example.com/theirs"} }))
	w.passes("a", controller.SpecChange)
	w.create(newApp("b", waitsFor("a"), func(app *v1alpha1.DemoApp) { app.Spec.Suspend = true }))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "before the deletion", "True DependencyDeployed", w.conditions("b")["DependencyReady"])
	const message = `Waiting for DemoApp "a", which is being deleted`

	w.delete("a")
	w.change("b", func(app *v1alpha1.DemoApp) { app.Spec.Suspend = false })
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests while the deletion begins", []string{"apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "message", message, w.message("b", releasev1alpha1.ConditionDependencyReady))

	w.passes("a", controller.SpecChange)
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests while a finalizer remains", []string(nil), w.calls.Take())
	expect.Equal(t, "message", message, w.message("b", releasev1alpha1.ConditionDependencyReady))

	w.change("a", func(app *v1alpha1.DemoApp) { app.Finalizers = nil })
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "message", `Waiting for DemoApp "a", which does not exist`, w.message("b", releasev1alpha1.ConditionDependencyReady))
}

func TestWaitFor(t *testing.T) {
	const (
		waiting  = "False Waiting"
		deployed = "True DependencyDeployed"
	)
	w := newWorld(t)
	w.create(newApp("b", waitsFor("a")))
	result := w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps b", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions(
		"DependencyReady", waiting, "Ready", waiting, "Reconciling", "True Waiting", "Deployed", waiting), w.conditions("b"))
	expect.Equal(t, "observedGeneration", int64(-1), w.app("b").Status.ObservedGeneration)
	expect.Equal(t, "events", []string{`b Normal Waiting Reconcile Waiting for DemoApp "a", which does not exist`}, w.recorder.Take())
	if result.RequeueAfter <= 0 {
		t.Error("no requeue as a fallback for events")
	}
	w.passes("b", controller.PeriodicResync)
	expect.Equal(t, "requests while it waits", []string(nil), w.calls.Take())

	w.create(newApp("a"))
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "message", `Waiting for DemoApp "a" to be deployed`, w.message("b", releasev1alpha1.ConditionDependencyReady))
	w.passes("a", controller.SpecChange)
	w.recorder.Take()
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests", []string{"Install b NotInstalled", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions(
		"DependencyReady", deployed, "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady, w.app("b").Status.LastUpgradeReason)
	expect.Equal(t, "events", []string{
		"b Normal Installed Install Installed revision 1 of chart demo-app 1.0.0 (CrossCRDependencyBecameReady)",
	}, w.recorder.Take())

	w.report("a", isDown)
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "conditions while the dependency fails", releasetest.Conditions(
		"DependencyReady", waiting, "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	w.change("b", says("other"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests of a held change", []string{"apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions of a held change", releasetest.Conditions("DependencyReady", waiting,
		"Ready", waiting, "Reconciling", "True Waiting", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	expect.Equal(t, "observedGeneration of a held change", int64(1), w.app("b").Status.ObservedGeneration)

	w.engine.Mutate(keyOf("b"), releasetest.Edit("Service"))
	w.passes("b", controller.Drift)
	expect.Equal(t, "requests for drift",
		[]string{"Repair b Drift", "apply demoapps/status b", "apply demoapps/status b"}, w.calls.Take())

	w.change("b", waitsFor(""))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade b InputsChanged", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions without waitFor", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("b"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.app("b").Status.LastUpgradeReason)
}

func TestCycleStalls(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", waitsFor("b")))
	w.create(newApp("b", waitsFor("a")))
	w.passes("a", controller.SpecChange)
	want := releasetest.Conditions("DependencyReady", "False DependencyCycle",
		"Ready", "False DependencyCycle", "Stalled", "True DependencyCycle", "Deployed", "False DependencyCycle")
	expect.Equal(t, "conditions", want, w.conditions("a"))
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), "a -> b -> a")
	expect.Equal(t, "events", []string{
		"a Warning DependencyCycle Reconcile waitFor leads back to this DemoApp: a -> b -> a; change waitFor of one of them",
	}, w.recorder.Take())

	w.change("a", keyFrom("keys", "k"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions with a missing key", want, w.conditions("a"))
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), `Secret "keys"`)
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), "a -> b -> a")

	w.secret(map[string]string{"k": plainKey})
	w.change("b", waitsFor(""))
	w.passes("b", controller.SpecChange)
	w.passes("a", controller.DependencyReady)
	expect.Equal(t, "conditions after the cycle is broken", releasetest.Conditions(
		"DependencyReady", "True DependencyDeployed", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}
