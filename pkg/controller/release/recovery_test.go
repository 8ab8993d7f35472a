// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// endsWhileExecuting makes a pass whose status is not written, and starts a new process.
func (w *world) endsWhileExecuting(name string) {
	w.t.Helper()
	executing := w.engine.Executing
	w.engine.Executing = func() {
		w.statusErr = errPlain
		if executing != nil {
			executing()
		}
	}
	w.sync()
	_, _ = w.loop.Reconcile(w.t.Context(), keyOf(name), controller.SpecChange) // The status write may be delayed or fail.
	w.engine.Executing, w.statusErr = executing, nil
	w.recorder.Take()
	w.start(w.chart)
}

// TestUnrecordedRevisionIsReported: a revision that the status did not record is reported
// with its original action and reason.
func TestUnrecordedRevisionIsReported(t *testing.T) {
	tests := []struct {
		name  string
		world func(t *testing.T) *world
		entry string
		event string
	}{
		{"an install", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newShop("a"))
			return w
		}, `Install Succeeded "SpecGenerationChanged" 1 0`, "a Normal Installed Install Installed revision 1 of chart shop 1.0.0 (SpecGenerationChanged)"},
		{"an upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			return w
		}, `Upgrade Succeeded "SpecGenerationChanged" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart shop 1.0.0 (SpecGenerationChanged)"},
		{"an upgrade to a newer chart", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.start(testChart(t, "1.1.0"))
			return w
		}, `Upgrade Succeeded "ChartChanged" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart shop 1.1.0 (ChartChanged)"},
		{"the retry of an upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.failing(1)
			return w
		}, `Upgrade Succeeded "RetryAfterFailure" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart shop 1.0.0 (RetryAfterFailure)"},
		{"a rollback", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback))
			w.change("a", says("bad"))
			w.engine.Failures = []error{errHook}
			_, _ = w.pass("a", controller.SpecChange)
			w.recorder.Take()
			return w
		}, `Rollback Succeeded "Remediation" 3 0`, "a Warning RolledBack Rollback Rolled back with revision 3 of chart shop 1.0.0 (Remediation). " +
			"Rolled back to revision 1; a change of the spec starts afresh. The last failure: connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			w.endsWhileExecuting("a")
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"patch shops a", "Reapply a BaselineUnknown", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "last entry of the history", test.entry, w.history("a")[0])
			expect.Equal(t, "events", []string{test.event}, w.recorder.Take())
			s := w.shop("a").Status
			expect.Equal(t, "last good revision", s.DeployedRelease.Revision, s.LastGoodRevision)
		})
	}
}

// neverReadyAfterChange returns a world whose Shop "a" is deployed. After a change of its
// spec, its pods never become ready within the timeout of a minute.
func neverReadyAfterChange(t *testing.T, retries int32) *world {
	t.Helper()
	w := deployed(t, remediating(retries, releasev1alpha1.RemediationRollback), func(shop *Shop) {
		shop.Spec.WaitForReady, shop.Spec.Timeout = true, &metav1.Duration{Duration: time.Minute}
	})
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.clock.SetTime(began)
	w.change("a", says("crashes"))
	return w
}

// TestRestartsDoNotAddRevisions: restarts during a rollout do not increase the number of
// revisions.
func TestRestartsDoNotAddRevisions(t *testing.T) {
	w := neverReadyAfterChange(t, 1)
	for revision := 2; revision <= 4; revision++ {
		w.endsWhileExecuting("a")
		expect.Equal(t, "revision", revision, w.engine.Release(keyOf("a")).Record.Revision)
		w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) { r.Record.Changed = w.clock.Now() })
		w.unfinished("a", controller.SpecChange)
		w.clock.Step(time.Minute)
	}
	expect.Equal(t, "RolledBackTo", 1, w.engine.Release(keyOf("a")).Record.RolledBackTo)
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "Ready", "False RolledBack", w.conditions("a")["Ready"])
}

// TestFailureIsWrittenBeforeNextAttempt: each failure is written and emitted once.
func TestFailureIsWrittenBeforeNextAttempt(t *testing.T) {
	w := neverReadyAfterChange(t, 1)
	w.unfinished("a", controller.SpecChange)
	w.clock.SetTime(began.Add(30 * time.Second))
	w.passes("a", controller.HealthChange)
	w.recorder.Take()
	w.engine.Executing = func() {
		expect.Equal(t, "failed upgrades when Execute begins", int64(1), w.shop("a").Status.Failures.Upgrades)
		expect.Equal(t, "conditions when Execute begins", releasetest.Conditions("Ready", "False Progressing", "Reconciling", "True Progressing",
			"Failed", "True HealthTimeout", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	}
	w.clock.SetTime(began.Add(time.Minute))
	w.passes("a", controller.PeriodicResync)
	// All fake records have the same age, so the timeout of the next revision is over,
	// too.
	expect.Equal(t, "events", []string{
		"a Warning HealthTimeout Reconcile Revision 2 did not become healthy in time",
		"a Normal Upgraded Upgrade Upgraded to revision 3 of chart shop 1.0.0 (RetryAfterFailure)",
	}, w.recorder.Take()[:2])
}

// TestHealthTimeoutBeforeRestart: the next attempt does not wait for an event.
func TestHealthTimeoutBeforeRestart(t *testing.T) {
	w := neverReadyAfterChange(t, 1)
	w.endsWhileExecuting("a")
	w.clock.SetTime(began.Add(time.Hour))
	result := w.passes("a", controller.SpecChange)
	expect.Equal(t, "requeue after", release.RetrySoon, result.RequeueAfter)
	expect.Equal(t, "Reconciling", "True HealthTimeout", w.conditions("a")["Reconciling"])
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "revision", 3, w.engine.Release(keyOf("a")).Record.Revision)
}
