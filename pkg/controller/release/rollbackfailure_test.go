// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// errUnserved is the failure of a revision whose manifest has a kind or version that is no longer
// served.
var errUnserved = fmt.Errorf("revision 1: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Gadget"}, SearchedVersions: []string{"v1beta1"}})

// rollbackFailures are errors of a rollback, by whether it left a record.
func rollbackFailures() map[string]error {
	return map[string]error{
		"a version that is not served": errUnserved,
		"a manifest":                   &helm.RenderError{Chart: "shop", Err: errPlain},
		"an object that is refused":    &helm.RefusedError{Object: helm.ObjectReference{Kind: "Secret", Name: "a"}, Err: errPlain},
		"an object that fails":         errPlain,
	}
}

// rollbackFailed returns a world with a change of "a" that failed, and whose rollback failed, too.
func rollbackFailed(t *testing.T, change, rollback error) *world {
	t.Helper()
	w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback))
	w.engine.CapabilitiesDigest = "before"
	w.change("a", says("other"))
	w.failsBy("a", "Upgrade a InputsChanged", change)
	w.failsBy("a", "Rollback a Failed", rollback)
	return w
}

// failsBy makes a pass whose only operation fails.
func (w *world) failsBy(name, operation string, failure error) {
	w.t.Helper()
	w.engine.Failures = []error{failure}
	if _, err := w.pass(name, controller.Retry); err == nil {
		w.t.Fatalf("%s: no error", operation)
	}
	expect.Equal(w.t, "operations", []string{operation}, w.rollouts())
}

// rollouts returns the operations since the last call that make revisions.
func (w *world) rollouts() []string {
	var found []string
	for _, call := range w.operations() {
		if strings.HasPrefix(call, "Upgrade ") || strings.HasPrefix(call, "Rollback ") {
			found = append(found, call)
		}
	}
	return found
}

// TestFailedRollbackGivesWay: the desired inputs are attempted again, although the release cannot be
// rolled back, in any process. This holds whatever prevents the rollback, and whether it left a record.
func TestFailedRollbackGivesWay(t *testing.T) {
	reads := &helm.ClusterReadError{Err: errPlain, Capabilities: true}
	ways := map[string]struct {
		change error
		then   func(*world)
	}{
		"other capabilities start afresh": {reads, func(w *world) { w.engine.CapabilitiesDigest = "after" }},
		"remediation ends": {errPlain, func(w *world) {
			w.change("a", func(shop *Shop) { shop.Spec.Remediation = nil })
		}},
		"other retries start afresh":      {errPlain, func(w *world) { w.change("a", remediating(1, releasev1alpha1.RemediationRollback)) }},
		"the pause is over":               {errPlain, func(w *world) { w.stepTo(0) }},
		"the pause of a hook is over":     {errHook, func(w *world) { w.stepTo(0) }},
		"an interruption, and the pause":  {errPlain, func(w *world) { w.interruptRollback(); w.stepTo(0) }},
		"an interruption, and afresh":     {reads, func(w *world) { w.interruptRollback(); w.engine.CapabilitiesDigest = "after" }},
		"a failed retry, and the pause":   {errPlain, func(w *world) { w.failsBy("a", "Rollback a Failed", errUnserved); w.stepTo(0) }},
		"a failed retry, and then afresh": {reads, func(w *world) { w.failsBy("a", "Rollback a Failed", errPlain); w.engine.CapabilitiesDigest = "after" }},
	}
	for name, way := range ways {
		for reason, failure := range rollbackFailures() {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/restart %t", name, reason, restart), func(t *testing.T) {
					if strings.HasPrefix(name, "a failed retry") && helm.IsTerminal(failure) {
						failure = errUnserved // A terminal failure is not repeated at once.
					}
					w := rollbackFailed(t, way.change, failure)
					way.then(w)
					if restart {
						w.start(w.chart)
					}
					w.passes("a", controller.PeriodicResync)
					expect.Equal(t, "operations", []string{"Upgrade a Failed"}, w.rollouts())
					expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
					w.clock.Step(time.Hour)
					w.passes("a", controller.PeriodicResync)
					expect.Equal(t, "operations in the end", []string(nil), w.rollouts())
				})
			}
		}
	}
}

// interruptRollback leaves the rollback pending, as a process that ends in it does.
func (w *world) interruptRollback() {
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
		if r.Record.RolledBackTo != 0 {
			r.Record.Status = "pending-rollback"
		}
	})
}

// TestUpgradeAndRollbackFail: each attempt at the change is followed by a rollback, at growing pauses
// that both share. The status names both causes. The number of revisions does not grow.
func TestUpgradeAndRollbackFail(t *testing.T) {
	for name, change := range map[string]error{"any error": errPlain, "a hook": errHook} {
		t.Run(name, func(t *testing.T) {
			w := rollbackFailed(t, change, errUnserved)
			both := fmt.Sprintf("%v; the rollback failed, too: %v", change, errUnserved)
			pause := time.Duration(0)
			for attempt := range 8 {
				expect.Equal(t, "Ready", "False RollbackFailed", w.conditions("a")["Ready"])
				expect.Equal(t, "Failed", "True UpgradeFailed", w.conditions("a")["Failed"])
				for _, condition := range []string{apimeta.ConditionReady, releasev1alpha1.ConditionFailed} {
					expect.Equal(t, condition, both, w.message("a", condition))
				}
				next := w.shop("a").Status.Failures.RetryAt.Sub(w.clock.Now())
				if next < 50*time.Second || next < pause*7/10 || next > 35*time.Minute {
					t.Errorf("pause is %s after %s", next, pause)
				}
				pause = next
				w.stepTo(-time.Second)
				w.engine.Failures = []error{errUnserved}
				result, err := w.pass("a", controller.Retry)
				expect.Equal(t, "before the time: failed, next pass in time", true, err != nil && result.RequeueAfter > 0 && result.RequeueAfter <= time.Second)
				expect.Equal(t, "operations before the time", []string{"Rollback a Failed"}, w.rollouts())
				w.stepTo(0)
				if attempt%2 == 1 {
					w.start(w.chart)
				}
				w.failsBy("a", "Upgrade a Failed", change)
				expect.Equal(t, "Failed", change.Error(), w.message("a", releasev1alpha1.ConditionFailed))
				w.failsBy("a", "Rollback a Failed", errUnserved)
			}
			expect.Equal(t, "pause in the end is long", true, pause > 20*time.Minute)
		})
	}
}

// TestCauseOfChangeIsKept: the cause of the failed change survives whatever its text is, also in another process.
func TestCauseOfChangeIsKept(t *testing.T) {
	cause := errors.New("a hook says: the upgrade failed; the rollback failed, too: as always")
	w := rollbackFailed(t, cause, errUnserved)
	expect.Equal(t, "change", cause.Error(), w.shop("a").Status.Failures.Change)
	w.start(w.chart)
	w.failsBy("a", "Rollback a Failed", errUnserved)
	expect.Equal(t, "Failed", fmt.Sprintf("%v; the rollback failed, too: %v", cause, errUnserved), w.message("a", releasev1alpha1.ConditionFailed))

	w.passes("a", controller.Retry)

	expect.Equal(t, "Failed", cause.Error(), w.message("a", releasev1alpha1.ConditionFailed))
	expect.Equal(t, "change", "", w.shop("a").Status.Failures.Change)
}

// TestRollbackSucceedsInTheEnd: the version is served again. The status then names the cause of the
// failed change alone.
func TestRollbackSucceedsInTheEnd(t *testing.T) {
	w := rollbackFailed(t, errPlain, errUnserved)
	w.passes("a", controller.Retry)
	expect.Equal(t, "operations", []string{"Rollback a Failed"}, w.rollouts())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False RolledBack", "Stalled", "True RolledBack", "Deployed", "False RolledBack",
		"Failed", "True UpgradeFailed", "Remediated", "True RolledBack"), w.conditions("a"))
	expect.Equal(t, "Failed", errPlain.Error(), w.message("a", releasev1alpha1.ConditionFailed))
	expect.Equal(t, "Ready names no failed rollback", false, strings.Contains(w.message("a", apimeta.ConditionReady), "the rollback failed"))
	w.stepTo(0)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
}
