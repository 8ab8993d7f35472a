// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	queued = "Chart demo-app 1.1.0 waits for its turn: it is rolled out to 1 DemoApps at a time"
	halted = "Chart demo-app 1.1.0 is rolled out no further, since DemoApps of at least 1 namespaces have failed with it; " +
		"it goes on when they recover, change or are deleted, and demo.example.com/force-at upgrades this one now"
)

// fleet returns a world with these deployed apps, and a new process with a newer chart
// that has not reconciled them yet.
func fleet(t *testing.T, limits rollout.Limits, names ...string) *world {
	t.Helper()
	w := newWorld(t)
	for i, name := range names {
		w.create(newApp(name, func(app *v1alpha1.DemoApp) {
			app.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(i) * time.Second))
		}))
		w.passes(name, controller.SpecChange)
	}
	w.clock.Step(time.Minute)
	w.recorder.take()
	w.rolloutLimits = limits
	w.start(testChart(t, "1.1.0"))
	return w
}

// rolloutConditions are the conditions of an app whose newer chart waits.
func rolloutConditions(reason string, more ...string) map[string]string {
	return conditions(append([]string{
		"UpgradeHeld", "True " + reason, "Ready", "False " + reason, "Reconciling", "True " + reason, "Deployed", "True InstallSucceeded",
	}, more...)...)
}

// beginRollout upgrades an app to the newer chart, with pods that are not ready yet.
func (w *world) beginRollout(name string) {
	w.t.Helper()
	w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
	w.passesUntilWritten(name)
	expect.Equal(w.t, "chart of "+name, "1.1.0", w.app(name).Status.DeployedRelease.ChartVersion)
}

// passesUntilWritten makes passes over an app until its delayed status is written.
func (w *world) passesUntilWritten(name string) {
	w.t.Helper()
	w.sync()
	_, err := w.controller.Reconcile(w.t.Context(), keyOf(name), controller.SpecChange)
	expect.NoError(w.t, err)
	w.clock.Step(settleTime)
	w.passes(name, controller.HealthChange)
}

// rolloutWaits checks that the newer chart waits for the reason.
func (w *world) rolloutWaits(name, reason string) {
	w.t.Helper()
	w.passes(name, controller.SpecChange)
	expect.Equal(w.t, "conditions of "+name, rolloutConditions(reason), w.conditions(name))
	expect.Equal(w.t, "chart of "+name, "1.0.0", w.app(name).Status.DeployedRelease.ChartVersion)
}

func TestNewerChartWaitsForTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
	w.beginRollout("a")
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.controller.Rollouts())

	w.recorder.take()
	result := w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply demoapps/status b"}, w.calls.take())
	expect.Equal(t, "conditions", rolloutConditions(releasev1alpha1.ReasonRolloutQueued), w.conditions("b"))
	expect.Equal(t, "message", queued, w.message("b", releasev1alpha1.ConditionUpgradeHeld))
	expect.Equal(t, "message of Ready", queued, w.message("b", apimeta.ConditionReady))
	expect.Equal(t, "events", []string{"b Normal Held Hold RolloutQueued: " + queued}, w.recorder.take())
	if result.RequeueAfter < resync*9/10 {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	w.passes("b", controller.PeriodicResync)
	expect.Equal(t, "requests of another pass", []string(nil), w.calls.take())
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Active: 1}, w.controller.Rollouts())

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.controller.Rollouts())
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests at its turn", []string{"Upgrade b InputsChanged", "apply demoapps/status b"}, w.calls.take())
	expect.Equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("b"))
	expect.Equal(t, "reason", releasev1alpha1.UpgradeReasonChartChanged, w.app("b").Status.LastUpgradeReason)
	expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
}

func TestSameChartTakesNoTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "a")
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.take())

	// Neither a failure of the app's own change nor a new app counts.
	w.change("a", says("other"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.create(newApp("b"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
}

func TestChangesThatPassRolloutQueue(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		calls  []string
		reason releasev1alpha1.UpgradeReason
	}{
		{"spec", func(w *world) { w.change("b", says("other")) }, []string{"Upgrade b InputsChanged", "apply demoapps/status b"}, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"forced", func(w *world) { w.change("b", asks("now", "now")) }, []string{"Upgrade b InputsChanged", "apply demoapps/status b"}, releasev1alpha1.UpgradeReasonChartChanged},
		{"uninstalled by hand", func(w *world) { w.engine.Mutate(keyOf("b"), releasetest.Uninstall) }, []string{
			"apply demoapps/status b", "Install b NotInstalled", "apply demoapps/status b",
		}, releasev1alpha1.UpgradeReasonDriftDetected},
		{"rolled back by hand", func(w *world) { w.engine.Mutate(keyOf("b"), releasetest.RewriteRecord(2, "deployed")) }, []string{
			"apply demoapps/status b", "Upgrade b ReleaseChanged", "apply demoapps/status b",
		}, releasev1alpha1.UpgradeReasonDriftDetected},
		{"interrupted", func(w *world) {
			w.engine.Mutate(keyOf("b"), func(r *releasetest.Release) {
				r.Record = &helm.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: "older", Changed: began}
			})
		}, []string{"Upgrade b Interrupted", "apply demoapps/status b"}, releasev1alpha1.UpgradeReasonRetryAfterFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
			w.beginRollout("a")
			w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
			test.change(w)
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.take())
			expect.Equal(t, "Ready", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "UpgradeHeld", "", w.conditions("b")["UpgradeHeld"])
			expect.Equal(t, "reason", test.reason, w.app("b").Status.LastUpgradeReason)
		})
	}
}

func TestChangedKeyPassesRolloutQueue(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": "first-key"})
	w.create(newApp("a"))
	w.create(newApp("b", keyFrom("keys", "k")))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.rolloutLimits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)

	w.secret(map[string]string{"k": "second-key"})
	w.change("b", suspended(true))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "chart while suspended", "1.0.0", w.app("b").Status.DeployedRelease.ChartVersion)
	w.change("b", suspended(false))
	w.beginRollout("b")
	expect.Equal(t, "counts", rollout.Counts{Active: 2}, w.controller.Rollouts())
}

// TestOwnChangeTakesTurn: an app that does not wait still takes a turn.
func TestOwnChangeTakesTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
	w.change("a", says("other"))
	w.beginRollout("a")
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
}

func TestFailureHaltsRollout(t *testing.T) {
	fails := map[string]func(w *world){
		"an upgrade that fails":        func(w *world) { w.engine.Failures = []error{errPlain} },
		"a chart that does not render": func(w *world) { w.engine.Failures = []error{&helm.RenderError{Err: errPlain}} },
		"an unhealthy workload":        func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.FailedStatus, "gave up", 0)) },
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 5, Failed: 1}, "a", "b", "c")
			fail(w)
			_, _ = w.pass("a", controller.SpecChange) // The status reports the error.
			expect.Equal(t, "Ready", "False", w.conditions("a")["Ready"][:5])
			expect.Equal(t, "counts", rollout.Counts{Failed: 1, Halted: true}, w.controller.Rollouts())
			w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
			expect.Equal(t, "message", halted, w.message("b", apimeta.ConditionReady))
			expect.Contains(t, "events", fmt.Sprint(w.recorder.take()), "b Warning Held Hold RolloutHalted: "+halted)
			w.passes("b", controller.PeriodicResync)
			expect.Equal(t, "requests of another pass", []string(nil), w.calls.take())

			// A new process has the same counts.
			w.start(testChart(t, "1.1.0"))
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "requests after a restart", []string(nil), w.calls.take())
			expect.Equal(t, "counts", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.controller.Rollouts())

			w.change("c", asks("now", "now"))
			w.passes("c", controller.SpecChange)
			expect.Equal(t, "Ready of the forced app", "True Healthy", w.conditions("c")["Ready"])

			w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
			w.change("a", asks("now", ""))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "counts after the recovery", rollout.Counts{Active: 1}, w.controller.Rollouts())
			w.passes("b", controller.DependencyReady)
			expect.Equal(t, "Ready of the waiting app", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "counts at the end", rollout.Counts{}, w.controller.Rollouts())
		})
	}
}

// TestFailuresOfObjectsDoNotHaltRollout: an object, or its namespace, can cause these failures
// with any chart.
func TestFailuresOfObjectsDoNotHaltRollout(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("exceeded quota"))
	fails := map[string]func(w *world){
		"another owner":  func(w *world) { w.engine.Failures = []error{&helm.OwnershipConflictError{}} },
		"refused object": func(w *world) { w.engine.Failures = []error{&helm.RefusedError{Err: errPlain}} },
		"quota":          func(w *world) { w.engine.Failures = []error{fmt.Errorf("ConfigMap a: %w", quota)} },
		"values": func(w *world) {
			w.engine.Failures = []error{&helm.RenderError{Err: fmt.Errorf("%w: values.a", chart.ErrInvalidValues)}}
		},
		"refused pods": func(w *world) {
			w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
				r.Health = helm.Health{Status: status.FailedStatus, PodsRefused: "pods is forbidden: exceeded quota"}
			})
		},
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "a", "b")
			fail(w)
			_, _ = w.pass("a", controller.SpecChange) // The status reports the error.
			expect.Equal(t, "Ready", "False", w.conditions("a")["Ready"][:5])

			// A new process decides by the status, and by the first pass over the app.
			w.start(testChart(t, "1.1.0"))
			w.passes("b", controller.SpecChange)
			if name != "refused pods" { // Only a pass over the app reads the health.
				expect.Equal(t, "Ready of the other app at once", "True Healthy", w.conditions("b")["Ready"])
			}
			_, _ = w.pass("a", controller.HealthChange)
			w.passes("b", controller.DependencyReady)
			expect.Equal(t, "Ready of the other app", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
		})
	}
}

func TestRollbackHaltsRollout(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", func(app *v1alpha1.DemoApp) { app.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
	w.create(newApp("b"))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.rolloutLimits = rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready", "False RolledBack", w.conditions("a")["Ready"])
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
	w.start(testChart(t, "1.1.0"))
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.controller.Rollouts())
	w.start(testChart(t, "1.2.0"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready with a fixed chart", "True Healthy", w.conditions("b")["Ready"])
}

// TestCapabilityChangeWaitsForRollout: a capability changes for many apps at once, so
// they still wait for their turn.
func TestCapabilityChangeWaitsForRollout(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a"))
	w.create(newApp("b", exposedBy("nginx")))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.rolloutLimits = rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready", "False RolloutHalted", w.is("b", apimeta.ConditionReady))
	w.hasClasses("nginx")
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "Ready with the class", "False RolloutHalted", w.is("b", apimeta.ConditionReady))
	expect.Equal(t, "chart", "1.0.0", w.app("b").Status.DeployedRelease.ChartVersion)
}

// TestEarlierFailuresDoNotHaltRollout: apps that failed before say nothing about the
// chart.
func TestEarlierFailuresDoNotHaltRollout(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("a", says("other"))
	w.engine.Failures = []error{errPlain, errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)

	w.rolloutLimits = rollout.Limits{Active: 1, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed again", true, err != nil)
	expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
	w.beginRollout("b")
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.controller.Rollouts())
}

func TestDeletionEndsHalt(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 5, Failed: 1}, "a", "b")
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
	now := metav1.NewTime(w.clock.Now())
	w.change("a", func(app *v1alpha1.DemoApp) { app.DeletionTimestamp = &now })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.controller.Rollouts())
}

func TestRestartDuringRollout(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 2}, "a", "b", "c")
	w.beginRollout("a")
	w.beginRollout("b")
	w.rolloutWaits("c", releasev1alpha1.ReasonRolloutQueued)

	w.start(testChart(t, "1.1.0"))
	w.passes("c", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.take())
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Active: 2}, w.controller.Rollouts())
	w.passes("b", controller.SpecChange)
	w.change("a", suspended(true))
	w.passesUntilWritten("a")
	expect.Equal(t, "counts after one is suspended", rollout.Counts{Active: 2}, w.controller.Rollouts())
}

func TestHeldAppsTakeNoTurn(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1alpha1.DemoApp)
		reason string
		// held is the reason of UpgradeHeld while the rollout is halted.
		held string
	}{
		{"suspended", suspended(true), releasev1alpha1.ReasonSuspendedBySpec, releasev1alpha1.ReasonRolloutHalted},
		{"outside of its window", opensAt("10 3 * * *", "UTC"), releasev1alpha1.ReasonOutsideWindow, releasev1alpha1.ReasonOutsideWindow},
		{"waiting for a dependency", waitsFor("missing"), v1alpha1.ReasonWaiting, releasev1alpha1.ReasonRolloutHalted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "a", "b", "c")
			w.report("a", func(app *v1alpha1.DemoApp) {
				app.Status.ObservedGeneration = 2
				meta.FindStatusCondition(app.Status.Conditions, releasev1alpha1.ConditionDeployed).ObservedGeneration = 2
			})
			w.change("a", test.change) // The observed generation makes the chart the only change.
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "Ready", "False "+test.reason, w.conditions("a")["Ready"])
			if got := w.message("a", apimeta.ConditionReady); slices.Contains([]string{queued, halted}, got) {
				t.Errorf("the message of Ready is %q", got)
			}
			expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())

			w.engine.Failures = []error{errPlain}
			_, err := w.pass("b", controller.SpecChange)
			expect.Equal(t, "failed", true, err != nil)
			w.passes("a", controller.DependencyReady)
			expect.Equal(t, "Ready", "False "+test.reason, w.conditions("a")["Ready"])
			expect.Contains(t, "message of Ready", w.message("a", apimeta.ConditionReady), "; "+halted)
			expect.Equal(t, "UpgradeHeld", "True "+test.held, w.conditions("a")["UpgradeHeld"])

			w.change("b", says("good"))
			w.passes("b", controller.SpecChange)
			w.passes("a", controller.DependencyReady)
			if held := w.conditions("a")["UpgradeHeld"]; held == "True "+releasev1alpha1.ReasonRolloutHalted {
				t.Errorf("UpgradeHeld is %q while the rollout continues", held)
			}
		})
	}
}

func TestUnreadableKeyLosesItsTurn(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": "first-key"})
	for _, app := range []*v1alpha1.DemoApp{newApp("a"), newApp("b", keyFrom("keys", "k")), newApp("c")} {
		w.create(app)
		w.passes(app.Name, controller.SpecChange)
	}
	w.rolloutLimits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
	w.secret(map[string]string{"k": "second-key"})
	w.secretErr = errPlain
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.controller.Rollouts())
	_, err := w.pass("b", controller.DependencyReady)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
}

func TestBusyReleaseLosesItsTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
	w.engine.Failures = []error{&helm.BusyError{Release: "a", Status: "being changed"}}
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False ReleaseBusy", w.conditions("a")["Ready"])
	expect.Equal(t, "counts", rollout.Counts{}, w.controller.Rollouts())
}

func TestLiveRollout(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.create(newApp(name))
		}
		settle()
		w.controller.roll(w.engine, w.recorder, rollout.Limits{Active: 1, Failed: 1})
		for _, name := range names {
			w.engine.Mutate(keyOf(name), func(r *releasetest.Release) {
				r.Record.ChartDigest, r.Record.Inputs = "older", "older"
				r.Health = helm.Health{Status: status.InProgressStatus, Message: "0 of 1"}
			})
			w.engine.Publish(keyOf(name), helm.RecordChanged)
		}
		advance(2 * time.Second)
		count := func(reason string) (found []string) {
			for _, name := range names {
				if w.is(name, apimeta.ConditionReady) == reason {
					found = append(found, name)
				}
			}
			return found
		}
		first := count("False Progressing")
		expect.Equal(t, "upgrading", 1, len(first))
		expect.Equal(t, "queued", 2, len(count("False RolloutQueued")))

		w.engine.Mutate(keyOf(first[0]), releasetest.SetHealth(status.CurrentStatus, "", 1))
		w.engine.Publish(keyOf(first[0]), helm.HealthChanged)
		advance(2 * time.Second)
		expect.Equal(t, "done", first, count("True Healthy"))
		second := count("False Progressing")
		expect.Equal(t, "upgrading next", 1, len(second))

		w.engine.Mutate(keyOf(second[0]), releasetest.SetHealth(status.FailedStatus, "gave up", 0))
		w.engine.Publish(keyOf(second[0]), helm.HealthChanged)
		advance(2 * haltNotice)
		expect.Equal(t, "halted", 1, len(count("False RolloutHalted")))

		w.delete(second[0])
		advance(2 * time.Second)
	})
}
