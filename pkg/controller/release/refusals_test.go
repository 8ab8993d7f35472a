// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// inConflict returns a world in which an object of another owner conflicts with the
// release "a".
func inConflict(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.create(newShop("a"))
	w.engine.ConflictState = "theirs"
	w.engine.Failures = []error{&helm.OwnershipConflictError{
		Object: helm.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "a"}, Holder: "their tool", Seen: "theirs",
	}}
	result, err := w.pass("a", controller.SpecChange)
	if !controller.IsTerminal(err) {
		t.Fatalf("error is %v, want a terminal one", err)
	}
	if after := result.RequeueAfter; after <= 30*time.Second || after >= time.Minute {
		t.Errorf("requeued after %s, want less than a minute", after)
	}
	expect.Equal(t, "Ready", "False OwnershipConflict", w.conditions("a")["Ready"])
	w.calls.Take()
	return w
}

func TestConflictingObjectIsChecked(t *testing.T) {
	w := inConflict(t)
	for range 4 {
		w.passes("a", controller.Drift)
		expect.Equal(t, "calls within the interval", []string(nil), w.calls.Take())
		w.clock.Step(time.Minute)
		w.passes("a", controller.PeriodicResync)
		expect.Equal(t, "calls after the interval", []string{"look Secret"}, w.calls.Take())
		expect.Equal(t, "Ready", "False OwnershipConflict", w.conditions("a")["Ready"])
	}
}

func TestConflictEndsAfterObjectIsDeleted(t *testing.T) {
	for name, seen := range map[string]string{"gone": "", "of another owner": "other"} {
		t.Run(name, func(t *testing.T) {
			w := inConflict(t)
			w.engine.ConflictState = seen
			w.clock.Step(time.Minute)

			w.passes("a", controller.PeriodicResync)

			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			w.calls.Take()
			w.clock.Step(time.Minute)
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "calls later", []string(nil), w.calls.Take())
		})
	}
}

func TestFailedCheckDoesNotEndConflict(t *testing.T) {
	w := inConflict(t)
	w.engine.Failures = []error{errPlain}
	w.clock.Step(time.Minute)

	result := w.passes("a", controller.PeriodicResync)

	expect.Equal(t, "calls", []string{"look Secret"}, w.calls.Take())
	expect.Equal(t, "Stalled", "True "+apimeta.ReasonOwnershipConflict, w.conditions("a")["Stalled"])
	if result.RequeueAfter >= time.Minute {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
}

// refusedUpgrade returns a world in which the API server refuses an upgrade of "a".
func refusedUpgrade(t *testing.T) (w *world, refused error) {
	t.Helper()
	refused = &helm.RefusedError{Object: helm.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "a"}, Err: errPlain}
	w = deployed(t)
	w.change("a", says("other"))
	w.engine.Failures = []error{refused}
	if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
		t.Fatalf("error is %v, want a terminal one", err)
	}
	w.calls.Take()
	w.recorder.Take()
	return w, refused
}

// operations returns the calls of the engine since the last time.
func (w *world) operations() []string {
	var operations []string
	for _, call := range w.calls.Take() {
		if !strings.HasPrefix(call, "apply shops/status ") {
			operations = append(operations, call)
		}
	}
	return operations
}

func TestDriftIsCorrectedWhileUpgradeIsRefused(t *testing.T) {
	w, refused := refusedUpgrade(t)
	want := releasetest.Conditions("Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused", "Deployed", "False Refused")
	w.passes("a", controller.Drift)
	expect.Equal(t, "operations without drift", []string(nil), w.operations())

	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.engine.Failures = []error{refused}
	_, err := w.pass("a", controller.Drift)
	expect.Equal(t, "error is terminal", true, controller.IsTerminal(err))
	expect.Equal(t, "operations after drift", []string{"Upgrade a Failed", "Repair a Drift"}, w.operations())
	expect.Equal(t, "conditions", want, w.conditions("a"))
	expect.Equal(t, "events", []string{"a Normal DriftCorrected Repair Corrected Service a (missing)"}, w.recorder.Take())
	expect.Equal(t, "revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)

	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "operations after the same drift", []string{"Repair a Drift"}, w.operations())
	expect.Equal(t, "conditions after the same drift", want, w.conditions("a"))

	w.engine.Mutate(keyOf("a"), releasetest.Remove("ConfigMap"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "operations after the refused object was deleted", []string{"Upgrade a Failed"}, w.operations())
	expect.Equal(t, "conditions in the end", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

// TestRefusedRepairWhileUpgradeIsRefused: both rest, and the status reports both.
func TestRefusedRepairWhileUpgradeIsRefused(t *testing.T) {
	w, refused := refusedUpgrade(t)
	other := &helm.RefusedError{Object: helm.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: "a"}, Err: errPlain}
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.engine.Failures = []error{refused, other}
	if _, err := w.pass("a", controller.Drift); controller.IsTerminal(err) {
		t.Errorf("error is %v, want one that is retried", err)
	}
	expect.Equal(t, "operations after drift", []string{"Upgrade a Failed", "Repair a Drift"}, w.operations())
	w.engine.Failures = []error{other}
	if _, err := w.pass("a", controller.Retry); !controller.IsTerminal(err) {
		t.Errorf("error of the repair is %v, want a terminal one", err)
	}
	expect.Equal(t, "operations of the retry", []string{"Repair a Drift"}, w.operations())

	w.passes("a", controller.Drift)

	expect.Equal(t, "operations at rest", []string(nil), w.operations())
	expect.Equal(t, "Ready", "False Refused", w.conditions("a")["Ready"])
	expect.Equal(t, "message", refused.Error()+"; "+other.Error(), w.message("a", apimeta.ConditionReady))
	w.clock.Step(10 * time.Minute)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
}

func TestDriftIsCorrectedAfterFailedUpgrade(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.engine.Failures = []error{errPlain}
	w.calls.Take()

	_, err := w.pass("a", controller.SpecChange)

	if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
		t.Errorf("error is %v, want one that is retried", err)
	}
	expect.Equal(t, "operations", []string{"Upgrade a InputsChanged", "Repair a Drift"}, w.operations())
	expect.Equal(t, "Ready", "False UpgradeFailed", w.conditions("a")["Ready"])
}

// TestDriftIsCorrectedAfterUpgradeWasGivenUp: the next process corrects it, too.
func TestDriftIsCorrectedAfterUpgradeWasGivenUp(t *testing.T) {
	w := deployed(t, remediating(0, releasev1alpha1.RemediationNone))
	w.failing(1)
	w.passes("a", controller.Retry)
	// The next process confirms the Shop first.
	for _, operations := range [][]string{{"Repair a Drift"}, {"patch shops a", "Repair a Drift"}} {
		w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
		w.passes("a", controller.Drift)
		expect.Equal(t, "operations", operations, w.operations())
		expect.Equal(t, "Ready", "False RetriesExhausted", w.conditions("a")["Ready"])
		expect.Equal(t, "revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)
		w.start(w.chart)
	}
}

// TestTerminalFailureIsCountedOnce: retries that are left do not count as failed attempts.
func TestTerminalFailureIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a", remediating(3, releasev1alpha1.RemediationNone)))
	w.engine.Failures = []error{&helm.RenderError{Chart: "shop", Err: errPlain}}
	if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
		t.Fatalf("error is %v, want a terminal one", err)
	}
	w.clock.Step(time.Hour)
	w.passes("a", controller.PeriodicResync)

	expect.Equal(t, "Ready", "False RetriesExhausted", w.conditions("a")["Ready"])
	message := w.message("a", apimeta.ConditionReady)
	if want := "Gave up after 1 failed attempt, because a retry cannot succeed; "; !strings.HasPrefix(message, want) {
		t.Errorf("message is %q, want it to begin with %q", message, want)
	}
	expect.Equal(t, "consecutive failures", int64(1), w.shop("a").Status.Failures.Consecutive)
}

// TestForceStartsAfresh: a requested upgrade starts an attempt afresh that was given up or rolled
// back, with all its retries. It is answered when it has ended.
func TestForceStartsAfresh(t *testing.T) {
	tests := map[string]struct {
		strategy releasev1alpha1.RemediationStrategy
		failures int
		ready    string
	}{
		"given up, then it succeeds":       {releasev1alpha1.RemediationNone, 0, "True Healthy"},
		"given up, then a retry succeeds":  {releasev1alpha1.RemediationNone, 1, "True Healthy"},
		"given up again":                   {releasev1alpha1.RemediationNone, 2, "False RetriesExhausted"},
		"rolled back, then it succeeds":    {releasev1alpha1.RemediationRollback, 0, "True Healthy"},
		"rolled back, then it fails again": {releasev1alpha1.RemediationRollback, 2, "False RolledBack"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, remediating(1, test.strategy))
			w.change("a", says("other"))
			w.engine.Failures = []error{errHook, errHook}
			for range 3 {
				_, _ = w.pass("a", controller.SpecChange)
			}
			w.operations()

			w.change("a", asks("now", "now"))
			w.engine.Failures = slices.Repeat([]error{errHook}, test.failures)
			_, _ = w.pass("a", controller.SpecChange)
			expect.Equal(t, "first operation is an upgrade", true, strings.HasPrefix(strings.Join(w.operations(), "\n"), "Upgrade a "))
			expect.Equal(t, "request is answered", test.failures == 0, w.shop("a").Status.LastHandledForceAt == "now")
			for range 3 {
				_, _ = w.pass("a", controller.Retry)
			}

			expect.Equal(t, "Ready", test.ready, w.conditions("a")["Ready"])
			expect.Equal(t, "lastHandledForceAt", "now", w.shop("a").Status.LastHandledForceAt)
			w.operations()
			w.clock.Step(time.Hour)
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "operations later", []string(nil), w.operations())
		})
	}
}
