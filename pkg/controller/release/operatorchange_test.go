// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// changedFleet returns a world with these deployed Shops, and a new process that gives them other
// values with the same chart. It has not reconciled them yet.
func changedFleet(t *testing.T, limits rollout.Limits, names ...string) *world {
	t.Helper()
	w := newWorld(t)
	for i, name := range names {
		w.create(newShop(name, func(shop *Shop) {
			shop.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(i) * time.Second))
		}))
		w.passes(name, controller.SpecChange)
	}
	w.recorder.Take()
	w.limits = limits
	w.restart("new")
	return w
}

// restart starts a process with these values for all Shops.
func (w *world) restart(defaults string) {
	w.t.Helper()
	w.defaults = defaults
	w.start(testChart(w.t, "1.0.0"))
	w.calls.Take()
}

func shopNames(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	return names
}

// TestOperatorChangeReachesFewAtATime: a change that no Shop made itself begins with the default
// limits, although the program sets none. Every Shop gets it in the end.
func TestOperatorChangeReachesFewAtATime(t *testing.T) {
	names := shopNames(30)
	w := changedFleet(t, rollout.Limits{}, names...)
	for _, name := range names {
		w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
		w.passes(name, controller.SpecChange)
	}
	expect.Equal(t, "counts", rollout.Counts{Queued: 20, Active: 10}, w.rollout())
	waiting := names[29]
	expect.Equal(t, "Ready of a waiting Shop", "False RolloutQueued", w.conditions(waiting)[apimeta.ConditionReady])
	expect.Equal(t, "its message", "A change of the operator's values for all Shops waits for its turn: it is rolled out to 10 Shops at a time",
		w.message(waiting, releasev1alpha1.ConditionUpgradeHeld))
	expect.Equal(t, "its revision", int64(1), w.shop(waiting).Status.DeployedRelease.Revision)

	for _, name := range names {
		w.passes(name, controller.DependencyReady)
		w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.CurrentStatus, "", 1))
		w.passes(name, controller.HealthChange)
	}
	expect.Equal(t, "counts in the end", rollout.Counts{}, w.rollout())
	for _, name := range names {
		expect.Equal(t, "revision of "+name, int64(2), w.shop(name).Status.DeployedRelease.Revision)
		expect.Equal(t, "reason of "+name, releasev1alpha1.UpgradeReasonOperatorChanged, w.shop(name).Status.LastUpgradeReason)
	}
}

// TestOperatorChangeHoldsNoOwnChange: what a Shop changes itself takes no turn, and takes the change
// of the operator along. A new Shop does not wait.
func TestOperatorChangeHoldsNoOwnChange(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"spec":   func(w *world) { w.change("b", says("other")) },
		"forced": func(w *world) { w.change("b", asks("now", "now")) },
		"spec while the operator was away": func(w *world) {
			w.change("b", says("other"))
			w.restart("new")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedFleet(t, rollout.Limits{Active: 1}, "a", "b", "c")
			w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
			w.passesUntilWritten("a")
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "Ready of b", "False RolloutQueued", w.conditions("b")[apimeta.ConditionReady])
			change(w)
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "Ready of b after its change", "True Healthy", w.conditions("b")[apimeta.ConditionReady])
			w.create(newShop("d"))
			w.passes("d", controller.SpecChange)
			expect.Equal(t, "Ready of a new Shop", "True Healthy", w.conditions("d")[apimeta.ConditionReady])
			w.passes("c", controller.SpecChange)
			expect.Equal(t, "Ready of c", "False RolloutQueued", w.conditions("c")[apimeta.ConditionReady])
		})
	}
}

// TestOwnChangesTakeNoTurn: a Secret that changes while no change of the operator is due, and a spec
// whose change fails, are no rollout.
func TestOwnChangesTakeNoTurn(t *testing.T) {
	w := newWorld(t)
	w.limits = rollout.Limits{Active: 1, Failed: 1}
	w.setSecret("first-key")
	w.restart("")
	for _, name := range []string{"a", "b"} {
		w.create(newShop(name, fromSecret))
		w.passes(name, controller.SpecChange)
	}
	w.setSecret("second-key")
	for _, name := range []string{"a", "b"} {
		w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
		w.passesUntilWritten(name)
		expect.Equal(t, "revision of "+name, int64(2), w.shop(name).Status.DeployedRelease.Revision)
	}
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())

	w.change("a", says("other"))
	w.engine.Failures = []error{&helm.RenderError{Err: errPlain}}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	_, _ = w.pass("a", controller.Retry)
	expect.Equal(t, "counts after a failure of a spec", rollout.Counts{}, w.rollout())
}

// TestFailuresHaltOperatorChange: the rollout stops, a new process knows it, and another change of
// the operator goes on.
func TestFailuresHaltOperatorChange(t *testing.T) {
	fails := map[string]func(w *world){
		"an upgrade that fails":        func(w *world) { w.engine.Failures = []error{errPlain} },
		"a chart that does not render": func(w *world) { w.engine.Failures = []error{&helm.RenderError{Err: errPlain}} },
		"an unhealthy workload":        func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.FailedStatus, "gave up", 0)) },
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			w := changedFleet(t, rollout.Limits{Active: 5, Failed: 1}, "a", "b", "c")
			fail(w)
			_, _ = w.pass("a", controller.SpecChange) // The status reports the error.
			expect.Equal(t, "counts", rollout.Counts{Failed: 1, Halted: true}, w.rollout())
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "Ready of b", "False RolloutHalted", w.conditions("b")[apimeta.ConditionReady])
			expect.Contains(t, "its message", w.message("b", apimeta.ConditionReady), "A change of the operator's values for all Shops is rolled out no further")

			w.restart("new")
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "requests after a restart", []string(nil), w.calls.Take())
			expect.Equal(t, "counts after a restart", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.rollout())

			w.restart("fixed")
			w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
			for _, name := range []string{"a", "b", "c", "b", "c"} {
				_, _ = w.pass(name, controller.SpecChange)
			}
			expect.Equal(t, "counts in the end", rollout.Counts{}, w.rollout())
			for _, name := range []string{"a", "b", "c"} {
				expect.Equal(t, "Ready of "+name, "True Healthy", w.conditions(name)[apimeta.ConditionReady])
			}
		})
	}
}

// TestRestartDuringOperatorChange: the Shops that have begun keep their turns.
func TestRestartDuringOperatorChange(t *testing.T) {
	w := changedFleet(t, rollout.Limits{Active: 2}, "a", "b", "c")
	for _, name := range []string{"a", "b"} {
		w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
		w.passesUntilWritten(name)
	}
	w.passes("c", controller.SpecChange)
	w.restart("new")
	w.passes("c", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.Take())
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Active: 2}, w.rollout())
	expect.Equal(t, "Ready of c", "False RolloutQueued", w.conditions("c")[apimeta.ConditionReady])
}

// TestPolicyChangeDoesNotReleaseFleet: a change of the spec that changes no value is no reason to
// get a later change of the operator at once.
func TestPolicyChangeDoesNotReleaseFleet(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newShop(name))
		w.passes(name, controller.SpecChange)
		w.change(name, func(shop *Shop) { shop.Spec.WaitForReady = true })
		w.passes(name, controller.SpecChange)
	}
	w.limits = rollout.Limits{Active: 1}
	w.restart("new")
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
	w.passesUntilWritten("a")
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready of b", "False RolloutQueued", w.conditions("b")[apimeta.ConditionReady])
}
