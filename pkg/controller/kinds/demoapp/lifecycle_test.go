// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/test/expect"
)

// TestFirstPass: a DemoApp gets its finalizer and its release, and reports both.
func TestFirstPass(t *testing.T) {
	w := newWorld(t)
	created := w.create(newApp("a"))

	w.passes("a", controller.SpecChange)

	expect.Equal(t, "requests", []string{"patch demoapps a", "Install a NotInstalled", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "events", []string{
		"a Normal Installed Install Installed revision 1 of chart demo-app 1.0.0 (SpecGenerationChanged)",
	}, w.recorder.Take())
	desired, isController := w.engine.Desired, true
	expect.Equal(t, "values", desiredValues(created.Spec, images.Table{}, plainKey, exposure{}), desired.Values)
	expect.Equal(t, "owner", &metav1.OwnerReference{
		APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "a", UID: created.UID, Controller: &isController,
	}, desired.Owner)
	expect.Equal(t, "finalizers", []string{v1alpha1.Finalizer}, w.app("a").Finalizers)
	expect.Equal(t, "URL", "http://a.ns.svc", w.app("a").Status.URL)
	expect.Equal(t, "observedGeneration", int64(1), w.app("a").Status.ObservedGeneration)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}

// TestValidatedChangePassesHaltedRollout: a change that was invalid before is not
// mistaken for a chart upgrade after a restart.
func TestValidatedChangePassesHaltedRollout(t *testing.T) {
	w := allowing(t, "docker.io/library")
	for _, name := range []string{"a", "b", "c"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Image = "quay.io/team/web" })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False ValidationFailed", w.conditions("a")["Ready"])

	w.registries, w.rolloutLimits = registries.List{}, rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("b", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.passes("c", controller.SpecChange)
	expect.Equal(t, "Ready of an app that waits", "False RolloutHalted", w.conditions("c")["Ready"])
	expect.Equal(t, "its chart", "1.0.0", w.app("c").Status.DeployedRelease.ChartVersion)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
}

// TestDependantWaitsForHealthyRevision: the dependant is deployed only after the revision
// was healthy.
func TestDependantWaitsForHealthyRevision(t *testing.T) {
	w := neverHealthy(t)
	w.create(newApp("a", waitsForReady))
	w.create(newApp("b", waitsFor("a")))
	w.unfinished("a", controller.SpecChange)
	w.clock.Step(time.Minute)
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "Deployed", "True InstallSucceeded", w.conditions("a")["Deployed"])

	w.passes("b", controller.SpecChange)
	expect.Equal(t, "DependencyReady", "False Waiting", w.conditions("b")["DependencyReady"])
	expect.Contains(t, "message", w.message("b", "DependencyReady"), `Waiting for DemoApp "a" to become healthy`)

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	w.engine.InitialHealth = releasetest.Healthy
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "DependencyReady in the end", "True DependencyDeployed", w.conditions("b")["DependencyReady"])
}

// policy sets spec.drift.
func policy(p releasev1alpha1.DriftPolicy) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Drift = &p }
}

// unfinished makes a pass whose status write may be delayed.
func (w *world) unfinished(name string, why controller.Reason) controller.Result {
	w.t.Helper()
	w.sync()
	result, err := w.controller.Reconcile(w.t.Context(), keyOf(name), why)
	expect.NoError(w.t, err)
	return result
}

func waitsForReady(app *v1alpha1.DemoApp) { app.Spec.WaitForReady = true }

// neverHealthy returns a world whose workloads do not become healthy by themselves.
func neverHealthy(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.engine.InitialHealth = helm.Health{Status: status.InProgressStatus, Message: "Available: 0/1", Replicas: 1, Selector: "app=a"}
	return w
}

// opensAt sets a window of one hour. The tests begin at 03:04 UTC.
func opensAt(schedule, zone string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		app.Spec.UpgradeWindow = &releasev1alpha1.UpgradeWindow{
			Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: time.Hour},
		}
	}
}

const (
	isHeld     = "True OutsideWindow"
	isNotReady = "False OutsideWindow"
)

// heldConditions are the conditions of an app whose upgrade waits for the window.
func heldConditions(more ...string) map[string]string {
	return releasetest.Conditions(append([]string{
		"UpgradeHeld", isHeld, "Ready", isNotReady, "Reconciling", isHeld, "Deployed", "True InstallSucceeded",
	}, more...)...)
}

// passesUntilWritten makes passes over an app until its delayed status is written.
func (w *world) passesUntilWritten(name string) {
	w.t.Helper()
	w.sync()
	_, err := w.controller.Reconcile(w.t.Context(), keyOf(name), controller.SpecChange)
	expect.NoError(w.t, err)
	w.clock.Step(time.Minute) // More than any write of a status is delayed.
	w.passes(name, controller.HealthChange)
}
