// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"
	"time"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	isInvalid  = "False ValidationFailed"
	isStalled  = "True ValidationFailed"
	isValid    = "True ValidationSucceeded"
	notAllowed = "Image docker.io/library/nginx is not from an allowed registry: quay.io"
)

func hasImage(image string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Image = image }
}

// allowing returns a world whose operator allows these registries.
func allowing(t *testing.T, entries ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.allow(entries...)
	return w
}

// allow starts a new process with other allowed registries.
func (w *world) allow(entries ...string) {
	w.t.Helper()
	var err error
	w.registries, err = registries.Parse(entries)
	expect.NoError(w.t, err)
	w.start(testChart(w.t, "1.0.0"))
}

func TestImageOutsideAllowedRegistries(t *testing.T) {
	w := allowing(t, "quay.io")
	w.create(newApp("a"))
	result := w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps a", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Validated", isInvalid, "Deployed", isInvalid, "Ready", isInvalid, "Stalled", isStalled), w.conditions("a"))
	expect.Equal(t, "message", notAllowed, w.message("a", apimeta.ConditionReady))
	expect.Equal(t, "events", []string{"a Warning ValidationFailed Reconcile " + notAllowed}, w.recorder.Take())
	if wait := result.RequeueAfter; wait < validationRetry*9/10 || wait > validationRetry*11/10 {
		t.Errorf("requeued after %v", wait)
	}
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())
	w.change("a", hasImage("quay.io/team/web:v1"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Install a NotInstalled", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Validated", isValid, "Deployed", "True InstallSucceeded", "Ready", "True Healthy"), w.conditions("a"))
	expect.Equal(t, "message", "Image quay.io/team/web is from an allowed registry", w.message("a", v1alpha1.ConditionValidated))
}

func TestRegistryNoLongerAllowed(t *testing.T) {
	w := deployed(t)
	w.allow("quay.io")
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps a", "Repair a Drift", "apply demoapps/status a", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions of the deployed app", releasetest.Conditions("Validated", isInvalid, "Deployed", "True InstallSucceeded",
		"Ready", isInvalid, "Stalled", isStalled), w.conditions("a"))

	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests of a change", []string{"apply demoapps/status a"}, w.calls.Take())

	w.allow()
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps a", "Upgrade a InputsChanged", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Deployed", "True UpgradeSucceeded", "Ready", "True Healthy"), w.conditions("a"))
}

func TestAllValidationFailuresAreReported(t *testing.T) {
	w := allowing(t, "quay.io")
	w.create(newApp("a", hasImage("quay.io/web"), atNodePort(30080)))
	w.create(newApp("b", atNodePort(30080), waitsFor("db"), opensAt("10 3 * * *", "UTC")))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "message of Validated", "Image quay.io/web is from an allowed registry; node port 30080 is this DemoApp's",
		w.message("a", v1alpha1.ConditionValidated))
	w.passes("b", controller.SpecChange)
	const both = notAllowed + `; node port 30080 belongs to DemoApp "a", which is older`
	expect.Equal(t, "message of Validated", both, w.message("b", v1alpha1.ConditionValidated))
	expect.Equal(t, "message of Ready", `Waiting for DemoApp "db", which does not exist; `+both, w.message("b", apimeta.ConditionReady))
	expect.Equal(t, "conditions", releasetest.Conditions("DependencyReady", "False Waiting", "Validated", isInvalid,
		"Deployed", isInvalid, "Ready", isInvalid, "Stalled", isStalled), w.conditions("b"))

	w.change("b", hasImage("quay.io/web"))
	w.change("b", atNodePort(30081))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "message of Validated", `Image quay.io/web is from an allowed registry; node port 30081 is this DemoApp's; `+
		`waitFor: Waiting for DemoApp "db", which does not exist`, w.message("b", v1alpha1.ConditionValidated))
	expect.Equal(t, "Ready", "False Waiting", w.is("b", apimeta.ConditionReady))
}

// TestInvalidChangeDoesNotPassWindow: changes of the helm command are corrected outside
// the window, but not together with an invalid change.
func TestInvalidChangeDoesNotPassWindow(t *testing.T) {
	w := deployed(t, opensAt("0 3 * * *", "UTC"))
	w.allow("quay.io")
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "UpgradeHeld inside the window", "", w.is("a", releasev1alpha1.ConditionUpgradeHeld))

	w.clock.Step(2 * time.Hour)
	w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "deployed"))
	w.allow()
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "Ready", isNotReady, w.is("a", apimeta.ConditionReady))
}
