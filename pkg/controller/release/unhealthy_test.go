// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func waitsForReady(shop *Shop) { shop.Spec.WaitForReady = true }

// neverHealthy returns a world whose workloads do not become healthy by themselves.
func neverHealthy(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.engine.InitialHealth = helm.Health{Status: status.InProgressStatus, Message: "Available: 0/1", Replicas: 1, Selector: "app=a"}
	return w
}

// timesOut steps the clock past the health timeout of the newest revision.
func (w *world) timesOut(name string) {
	w.t.Helper()
	w.engine.Mutate(keyOf(name), func(r *releasetest.Release) { r.Record.Changed = w.clock.Now() })
	w.clock.Step(helm.DefaultTimeout)
	w.unfinished(name, controller.PeriodicResync)
}

// marks returns the calls that marked a revision since the last call of marks.
func (w *world) marks() []string {
	var found []string
	for _, call := range w.calls.Take() {
		if strings.HasPrefix(call, "mark ") {
			found = append(found, call)
		}
	}
	return found
}

// TestNeverHealthyReleaseIsLeft: there is no good revision to roll back to, whatever the
// records say.
func TestNeverHealthyReleaseIsLeft(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady, remediating(1, releasev1alpha1.RemediationRollback)))
	w.create(newShop("b", waitsFor("a")))
	exhausted := releasetest.Conditions("Ready", "False RetriesExhausted", "Stalled", "True RetriesExhausted", "Deployed", "False RetriesExhausted",
		"Failed", "True HealthTimeout", "Remediated", "True RetriesExhausted")
	w.unfinished("a", controller.SpecChange)
	w.calls.Take()

	for i, spec := range []string{"bad", "worse"} {
		first := int64(2*i + 1)
		if i > 0 {
			w.change("a", says(spec))
			w.unfinished("a", controller.SpecChange)
			w.calls.Take()
		}
		w.passes("b", controller.DependencyReady)
		expect.Equal(t, spec+": Ready of the dependant meanwhile", "False Waiting", w.conditions("b")["Ready"])
		w.calls.Take()
		w.timesOut("a")
		w.timesOut("a")

		expect.Equal(t, spec+": conditions", exhausted, w.conditions("a"))
		expect.Equal(t, spec+": revision", first+1, w.shop("a").Status.DeployedRelease.Revision)
		expect.Equal(t, spec+": last good revision", int64(0), w.shop("a").Status.LastGoodRevision)
		w.passes("b", controller.DependencyReady)
		expect.Equal(t, spec+": Ready of the dependant", "False Waiting", w.conditions("b")["Ready"])
		w.passes("a", controller.PeriodicResync)
		expect.Equal(t, spec+": conditions later", exhausted, w.conditions("a"))
		expect.Equal(t, spec+": calls while stalled", []string(nil), w.calls.Take())
	}
}

func TestUnhealthyRevisionsAreMarkedAsFailed(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady, remediating(1, releasev1alpha1.RemediationRollback)))
	w.unfinished("a", controller.SpecChange)
	w.calls.Take()

	w.timesOut("a")
	expect.Equal(t, "marks after the first attempt", []string{"mark a v1 failed"}, w.marks())
	w.timesOut("a")
	expect.Equal(t, "marks after the last attempt", []string{"mark a v2 failed"}, w.marks())
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "marks while stalled", []string(nil), w.marks())

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.unfinished("a", controller.HealthChange)
	expect.Equal(t, "marks after it became healthy", []string{"mark a v2 deployed"}, w.marks())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	expect.Equal(t, "last good revision", int64(2), w.shop("a").Status.LastGoodRevision)
}

func TestUnhealthyRevisionWithoutRemediation(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady))
	w.unfinished("a", controller.SpecChange)
	w.calls.Take()

	w.timesOut("a")
	expect.Equal(t, "marks", []string{"mark a v1 failed"}, w.marks())
	expect.Equal(t, "Ready", "False HealthTimeout", w.conditions("a")["Ready"])

	w.change("a", func(shop *Shop) { shop.Spec.WaitForReady = false })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "marks without waitForReady", []string{"mark a v1 deployed"}, w.marks())
	expect.Equal(t, "Deployed without waitForReady", "True InstallSucceeded", w.conditions("a")["Deployed"])
}

func TestDriftOfUnhealthyRevisionIsCorrected(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady, remediating(0, releasev1alpha1.RemediationNone)))
	w.unfinished("a", controller.SpecChange)
	w.timesOut("a")
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.calls.Take()

	w.passes("a", controller.Drift)

	expect.Equal(t, "repaired", true, slices.Contains(w.calls.Take(), "Repair a Drift"))
	expect.Equal(t, "Ready", "False RetriesExhausted", w.conditions("a")["Ready"])
}

func TestSuspendedRevisionIsNotMarked(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady))
	w.unfinished("a", controller.SpecChange)
	w.change("a", func(shop *Shop) { shop.Spec.Suspend = true })
	w.calls.Take()

	w.timesOut("a")

	expect.Equal(t, "marks", []string(nil), w.marks())
}

func TestFailedMarkIsRetried(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady, remediating(3, releasev1alpha1.RemediationRollback)))
	w.unfinished("a", controller.SpecChange)
	w.clock.Step(helm.DefaultTimeout)
	w.engine.Failures = []error{errPlain}

	_, err := w.pass("a", controller.PeriodicResync)

	expect.Equal(t, "error", true, errors.Is(err, errPlain))
	expect.Equal(t, "revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "failures", int64(1), w.shop("a").Status.Failures.Consecutive)
	w.calls.Take()
	w.unfinished("a", controller.Retry)
	expect.Equal(t, "marks", []string{"mark a v1 failed"}, w.marks())
	expect.Equal(t, "revision in the end", int64(2), w.shop("a").Status.DeployedRelease.Revision)
}
