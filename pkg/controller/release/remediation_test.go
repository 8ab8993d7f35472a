// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func remediating(retries int32, strategy releasev1alpha1.RemediationStrategy) func(*Shop) {
	return func(shop *Shop) {
		shop.Spec.Remediation = &releasev1alpha1.Remediation{Retries: &retries, Strategy: strategy}
	}
}

func TestRollbackAfterLastRetry(t *testing.T) {
	w := deployed(t, remediating(1, releasev1alpha1.RemediationRollback))
	w.failing(2)
	expect.Equal(t, "conditions before", releasetest.Conditions("Ready", "False UpgradeFailed", "Reconciling", "True UpgradeFailed",
		"Deployed", "False UpgradeFailed", "Failed", "True UpgradeFailed"), w.conditions("a"))
	w.passes("a", controller.Retry)
	stalled := releasetest.Conditions("Ready", "False RolledBack", "Stalled", "True RolledBack", "Deployed", "False RolledBack",
		"Failed", "True UpgradeFailed", "Remediated", "True RolledBack")
	check := func(step string) {
		t.Helper()
		got := w.shop("a").Status
		expect.Equal(t, step+": conditions", stalled, w.conditions("a"))
		expect.Equal(t, step+": revision", int64(3), got.DeployedRelease.Revision)
		expect.Equal(t, step+": reason", releasev1alpha1.UpgradeReasonRemediation, got.LastUpgradeReason)
		expect.Equal(t, step+": observedGeneration", int64(2), got.ObservedGeneration)
		expect.Equal(t, step+": message", true, strings.Contains(w.message("a", "Ready"), "Rolled back to revision 1"))
	}
	check("rolled back")
	events := w.recorder.Take()
	expect.Equal(t, "events", 1, len(events))
	expect.Contains(t, "event", events[0], "a Warning RolledBack Rollback Rolled back with revision 3")
	expect.Contains(t, "event", events[0], "Rolled back to revision 1")

	w.calls.Take()
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while stalled", []string(nil), w.calls.Take())
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests after a restart", []string(nil), w.calls.Take())
	check("after a restart")
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Secret"))
	w.passes("a", controller.Drift)
	check2 := w.conditions("a")
	expect.Equal(t, "conditions after drift of the earlier revision", stalled, check2)
	expect.Equal(t, "consecutive failures after a repair", int64(2), w.shop("a").Status.Failures.Consecutive)
	w.recorder.Take()

	w.change("a", func(shop *Shop) { shop.Spec.Message = "good" })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions in the end", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	expect.Equal(t, "last good revision", int64(4), w.shop("a").Status.LastGoodRevision)
}

// TestConsecutiveRollbacks: each bad spec is rolled back to the previous rollback,
// because the first good revision leaves the history.
func TestConsecutiveRollbacks(t *testing.T) {
	w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback))
	for _, message := range []string{"bad", "worse", "worst"} {
		w.change("a", says(message))
		w.engine.Failures = []error{errPlain}
		if _, err := w.pass("a", controller.SpecChange); err == nil {
			t.Fatal("no error")
		}
		w.passes("a", controller.Retry)
		expect.Equal(t, message+": Ready", "False RolledBack", w.conditions("a")["Ready"])
		s := w.shop("a").Status
		expect.Equal(t, message+": last good revision", s.DeployedRelease.Revision, s.LastGoodRevision)
	}
}

// TestHealthyRevisionIsRecordedWhileChangeIsHeld: a later rollback needs the healthy
// revision.
func TestHealthyRevisionIsRecordedWhileChangeIsHeld(t *testing.T) {
	w := deployed(t)
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.change("a", says("second"))
	w.unfinished("a", controller.SpecChange)
	w.engine.Executing = nil
	w.change("a", func(shop *Shop) {
		says("third")(shop)
		opensAt("10 3 * * *", "UTC")(shop)
	})
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "last good revision before", int64(1), w.shop("a").Status.LastGoodRevision)
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "Ready", "False OutsideWindow", w.conditions("a")["Ready"])
	expect.Equal(t, "last good revision", int64(2), w.shop("a").Status.LastGoodRevision)
}

// TestRollbackDoesNotWaitForDependency: a rollback brings back an earlier revision.
func TestRollbackDoesNotWaitForDependency(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("b"))
	w.passes("b", controller.SpecChange)
	w.create(newShop("a", waitsFor("b"), remediating(0, releasev1alpha1.RemediationRollback)))
	w.passes("a", controller.SpecChange)
	w.failing(1)
	w.report("b", func(shop *Shop) { shop.Status.Conditions = nil })
	w.passes("a", controller.DependencyReady)
	expect.Equal(t, "Ready", "False RolledBack", w.conditions("a")["Ready"])
}

func TestRetriesExhausted(t *testing.T) {
	w := deployed(t, remediating(1, releasev1alpha1.RemediationNone))
	w.failing(2)
	w.passes("a", controller.Retry)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False RetriesExhausted", "Stalled", "True RetriesExhausted",
		"Deployed", "False RetriesExhausted", "Failed", "True UpgradeFailed", "Remediated", "True RetriesExhausted"), w.conditions("a"))
	expect.Equal(t, "requests", []string{"apply shops/status a"}, w.calls.Take())
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while stalled", []string(nil), w.calls.Take())
	w.change("a", func(shop *Shop) { shop.Spec.Message = "good" })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions in the end", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

// TestRemediationSurvivesFailedRepair: a repair that fails while the Secret is missing does
// not restart the attempts.
func TestRemediationSurvivesFailedRepair(t *testing.T) {
	// Drift is not corrected while the newest record belongs to a failed attempt.
	withoutRecord := terminalFailures()[releasev1alpha1.ReasonRenderFailed]
	tests := []struct {
		name            string
		strategy        releasev1alpha1.RemediationStrategy
		attempt, repair error
		reason          string
	}{
		{"left", releasev1alpha1.RemediationNone, withoutRecord, errPlain, releasev1alpha1.ReasonRetriesExhausted},
		{
			"left, refused repair", releasev1alpha1.RemediationNone,
			withoutRecord, terminalFailures()[apimeta.ReasonRefused], releasev1alpha1.ReasonRetriesExhausted,
		},
		{"rolled back", releasev1alpha1.RemediationRollback, errPlain, errPlain, releasev1alpha1.ReasonRolledBack},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret(secretValue)
			w.create(newShop("a", fromSecret, remediating(0, test.strategy)))
			w.passes("a", controller.SpecChange)
			w.change("a", says("bad"))
			w.engine.Failures = []error{test.attempt}
			_, err := w.pass("a", controller.SpecChange)
			expect.Equal(t, "failed", true, err != nil)
			w.passes("a", controller.Retry)
			expect.Equal(t, "Ready", "False "+test.reason, w.conditions("a")["Ready"])
			before := w.shop("a").Status

			w.setSecret("")
			w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
			w.engine.Failures = []error{test.repair}
			_, err = w.pass("a", controller.Drift)
			expect.Equal(t, "the repair failed", true, err != nil)
			want := *before.Failures
			want.Repairs++
			expect.Equal(t, "failures", &want, w.shop("a").Status.Failures)
			expect.Equal(t, "Remediated while the Secret is missing", "True "+test.reason, w.conditions("a")["Remediated"])

			w.setSecret(secretValue)
			w.change("a", asks("now", ""))
			w.passes("a", controller.SpecChange|controller.Retry)
			expect.Equal(t, "revision", before.DeployedRelease.Revision, w.shop("a").Status.DeployedRelease.Revision)
			expect.Equal(t, "Ready in the end", "False "+test.reason, w.conditions("a")["Ready"])
			expect.Equal(t, "Remediated in the end", "True "+test.reason, w.conditions("a")["Remediated"])
		})
	}
}

func TestFailedFirstInstallIsLeft(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a", remediating(0, releasev1alpha1.RemediationRollback)))
	w.engine.Failures = []error{errPlain}
	if _, err := w.pass("a", controller.SpecChange); err == nil {
		t.Fatal("no error")
	}
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready", "False RetriesExhausted", w.conditions("a")["Ready"])
}

func TestRefusedUpgradeIsRolledBackWithoutRetries(t *testing.T) {
	w := deployed(t, remediating(5, releasev1alpha1.RemediationRollback))
	w.change("a", func(shop *Shop) { shop.Spec.Message = "bad" })
	w.engine.Failures = []error{&helm.RefusedError{Object: helm.ObjectReference{Kind: "Secret", Name: "a"}, Err: errPlain}}
	if _, err := w.pass("a", controller.SpecChange); err == nil || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready", "False RolledBack", w.conditions("a")["Ready"])
}

func TestWaitForReady(t *testing.T) {
	w := deployed(t, remediating(1, releasev1alpha1.RemediationRollback), func(shop *Shop) {
		shop.Spec.WaitForReady = true
		shop.Spec.Timeout = &metav1.Duration{Duration: time.Minute}
	})
	starting := func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.engine.Executing = starting
	w.clock.SetTime(began)
	w.change("a", func(shop *Shop) { shop.Spec.Message = "crashes" })
	w.unfinished("a", controller.SpecChange)
	for attempt := int64(1); attempt <= 2; attempt++ {
		w.clock.SetTime(began.Add(30 * time.Second))
		result := w.unfinished("a", controller.HealthChange)
		expect.Equal(t, "revision", 1+attempt, w.shop("a").Status.DeployedRelease.Revision)
		if result.RequeueAfter > 30*time.Second {
			t.Errorf("requeued after %s, the timeout ends in 30 s", result.RequeueAfter)
		}
		w.clock.SetTime(began.Add(time.Minute))
		if attempt == 2 {
			w.engine.Executing = func() { w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1)) }
		}
		w.unfinished("a", controller.PeriodicResync)
	}
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "revision", int64(4), w.shop("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False RolledBack", "Stalled", "True RolledBack", "Deployed", "False RolledBack",
		"Failed", "True HealthTimeout", "Remediated", "True RolledBack"), w.conditions("a"))
	expect.Equal(t, "failed upgrades", int64(2), w.shop("a").Status.Failures.Upgrades)
}

func TestWaitForReadyWithoutRemediation(t *testing.T) {
	w := deployed(t, func(shop *Shop) { shop.Spec.WaitForReady = true })
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.change("a", func(shop *Shop) { shop.Spec.Message = "slow" })
	w.unfinished("a", controller.SpecChange)
	w.clock.SetTime(began.Add(helm.DefaultTimeout))
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "conditions after the timeout", releasetest.Conditions("Ready", "False HealthTimeout", "Stalled", "True HealthTimeout",
		"Deployed", "False HealthTimeout", "Failed", "True HealthTimeout"), w.conditions("a"))
	w.calls.Take()
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while stalled", []string(nil), w.calls.Take())
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "conditions in the end", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}
