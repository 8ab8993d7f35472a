// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

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

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	queued = "Chart shop 1.1.0 waits for its turn: it is rolled out to 1 Shops at a time"
	halted = "Chart shop 1.1.0 is rolled out no further, since Shops of at least 1 namespaces have failed with it; " +
		"it goes on when they recover, change or are deleted, and demo.example.com/force-at upgrades this one now"
)

// fleet returns a world with these deployed Shops, and a new process with a newer chart
// that has not reconciled them yet.
func fleet(t *testing.T, limits rollout.Limits, names ...string) *world {
	t.Helper()
	w := newWorld(t)
	for i, name := range names {
		w.create(newShop(name, func(shop *Shop) {
			shop.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(i) * time.Second))
		}))
		w.passes(name, controller.SpecChange)
	}
	w.clock.Step(time.Minute)
	w.recorder.Take()
	w.limits = limits
	w.start(testChart(t, "1.1.0"))
	return w
}

// rolloutConditions are the conditions of a Shop whose newer chart waits.
func rolloutConditions(reason string, more ...string) map[string]string {
	return releasetest.Conditions(append([]string{
		"UpgradeHeld", "True " + reason, "Ready", "False " + reason, "Reconciling", "True " + reason, "Deployed", "True InstallSucceeded",
	}, more...)...)
}

// beginRollout upgrades a Shop to the newer chart, with pods that are not ready yet.
func (w *world) beginRollout(name string) {
	w.t.Helper()
	w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
	w.passesUntilWritten(name)
	expect.Equal(w.t, "chart of "+name, "1.1.0", w.shop(name).Status.DeployedRelease.ChartVersion)
}

// passesUntilWritten makes passes over a Shop until its delayed status is written.
func (w *world) passesUntilWritten(name string) {
	w.t.Helper()
	w.sync()
	_, err := w.loop.Reconcile(w.t.Context(), keyOf(name), controller.SpecChange)
	expect.NoError(w.t, err)
	w.clock.Step(release.SettleTime)
	w.passes(name, controller.HealthChange)
}

// rolloutWaits checks that the newer chart waits for the reason.
func (w *world) rolloutWaits(name, reason string) {
	w.t.Helper()
	w.passes(name, controller.SpecChange)
	expect.Equal(w.t, "conditions of "+name, rolloutConditions(reason), w.conditions(name))
	expect.Equal(w.t, "chart of "+name, "1.0.0", w.shop(name).Status.DeployedRelease.ChartVersion)
}

func TestNewerChartWaitsForTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
	w.beginRollout("a")
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.rollout())

	w.recorder.Take()
	result := w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply shops/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", rolloutConditions(releasev1alpha1.ReasonRolloutQueued), w.conditions("b"))
	expect.Equal(t, "message", queued, w.message("b", releasev1alpha1.ConditionUpgradeHeld))
	expect.Equal(t, "message of Ready", queued, w.message("b", apimeta.ConditionReady))
	expect.Equal(t, "events", []string{"b Normal Held Hold RolloutQueued: " + queued}, w.recorder.Take())
	if result.RequeueAfter < resync*9/10 {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	w.passes("b", controller.PeriodicResync)
	expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Active: 1}, w.rollout())

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.rollout())
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests at its turn", []string{"Upgrade b InputsChanged", "apply shops/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("b"))
	expect.Equal(t, "reason", releasev1alpha1.UpgradeReasonChartChanged, w.shop("b").Status.LastUpgradeReason)
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
}

func TestSameChartTakesNoTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "a")
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.Take())

	// Neither a failure of the Shop's own change nor a new Shop counts.
	w.change("a", says("other"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.create(newShop("b"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
}

func TestChangesThatPassRolloutQueue(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		calls  []string
		reason releasev1alpha1.UpgradeReason
	}{
		{"spec", func(w *world) { w.change("b", says("other")) }, []string{"Upgrade b InputsChanged", "apply shops/status b"}, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"forced", func(w *world) { w.change("b", asks("now", "now")) }, []string{"Upgrade b InputsChanged", "apply shops/status b"}, releasev1alpha1.UpgradeReasonChartChanged},
		{"uninstalled by hand", func(w *world) { w.engine.Mutate(keyOf("b"), releasetest.Uninstall) }, []string{
			"apply shops/status b", "Install b NotInstalled", "apply shops/status b",
		}, releasev1alpha1.UpgradeReasonDriftDetected},
		{"rolled back by hand", func(w *world) { w.engine.Mutate(keyOf("b"), releasetest.RewriteRecord(2, "deployed")) }, []string{
			"apply shops/status b", "Upgrade b ReleaseChanged", "apply shops/status b",
		}, releasev1alpha1.UpgradeReasonDriftDetected},
		{"interrupted", func(w *world) {
			w.engine.Mutate(keyOf("b"), func(r *releasetest.Release) {
				r.Record = &record.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: "older", Changed: began}
			})
		}, []string{"Upgrade b Interrupted", "apply shops/status b"}, releasev1alpha1.UpgradeReasonRetryAfterFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
			w.beginRollout("a")
			w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
			test.change(w)
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.Take())
			expect.Equal(t, "Ready", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "UpgradeHeld", "", w.conditions("b")["UpgradeHeld"])
			expect.Equal(t, "reason", test.reason, w.shop("b").Status.LastUpgradeReason)
		})
	}
}

func TestChangedInputsPassRolloutQueue(t *testing.T) {
	w := newWorld(t)
	w.setSecret("first-key")
	w.create(newShop("a"))
	w.create(newShop("b", fromSecret))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.limits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)

	w.setSecret("second-key")
	w.change("b", suspended(true))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "chart while suspended", "1.0.0", w.shop("b").Status.DeployedRelease.ChartVersion)
	w.change("b", suspended(false))
	w.beginRollout("b")
	expect.Equal(t, "counts", rollout.Counts{Active: 2}, w.rollout())
}

// TestOwnChangeTakesTurn: a Shop that does not wait still takes a turn.
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
			expect.Equal(t, "counts", rollout.Counts{Failed: 1, Halted: true}, w.rollout())
			w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
			expect.Equal(t, "message", halted, w.message("b", apimeta.ConditionReady))
			expect.Contains(t, "events", fmt.Sprint(w.recorder.Take()), "b Warning Held Hold RolloutHalted: "+halted)
			w.passes("b", controller.PeriodicResync)
			expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())

			// A new process has the same counts.
			w.start(testChart(t, "1.1.0"))
			w.passes("b", controller.SpecChange)
			expect.Equal(t, "requests after a restart", []string(nil), w.calls.Take())
			expect.Equal(t, "counts", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.rollout())

			w.change("c", asks("now", "now"))
			w.passes("c", controller.SpecChange)
			expect.Equal(t, "Ready of the forced Shop", "True Healthy", w.conditions("c")["Ready"])

			w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
			w.change("a", asks("now", ""))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "counts after the recovery", rollout.Counts{Active: 1}, w.rollout())
			w.passes("b", controller.DependencyReady)
			expect.Equal(t, "Ready of the waiting Shop", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "counts at the end", rollout.Counts{}, w.rollout())
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

			// A new process decides by the status, and by the first pass over the shop.
			w.start(testChart(t, "1.1.0"))
			w.passes("b", controller.SpecChange)
			if name != "refused pods" { // Only a pass over the Shop reads the health.
				expect.Equal(t, "Ready of the other Shop at once", "True Healthy", w.conditions("b")["Ready"])
			}
			_, _ = w.pass("a", controller.HealthChange)
			w.passes("b", controller.DependencyReady)
			expect.Equal(t, "Ready of the other Shop", "True Healthy", w.conditions("b")["Ready"])
			expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
		})
	}
}

func TestRollbackHaltsRollout(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a", func(shop *Shop) { shop.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
	w.create(newShop("b"))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.limits = rollout.Limits{Active: 5, Failed: 1}
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
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.rollout())
	w.start(testChart(t, "1.2.0"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready with a fixed chart", "True Healthy", w.conditions("b")["Ready"])
}

// TestCapabilityChangeWaitsForRollout: a capability changes for many Shops at once, so
// they still wait for their turn.
func TestCapabilityChangeWaitsForRollout(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.create(newShop("b", func(shop *Shop) { shop.Spec.Optional = true }))
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	w.limits = rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready", "False RolloutHalted", w.conditions("b")[apimeta.ConditionReady])
	w.optionalKind, w.version = true, w.version+1
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "Ready with the kind", "False RolloutHalted", w.conditions("b")[apimeta.ConditionReady])
	expect.Equal(t, "chart", "1.0.0", w.shop("b").Status.DeployedRelease.ChartVersion)
}

// TestEarlierFailuresDoNotHaltRollout: Shops that failed before say nothing about the
// chart.
func TestEarlierFailuresDoNotHaltRollout(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newShop(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("a", says("other"))
	w.engine.Failures = []error{errPlain, errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)

	w.limits = rollout.Limits{Active: 1, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed again", true, err != nil)
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
	w.beginRollout("b")
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.rollout())
}

func TestDeletionEndsHalt(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 5, Failed: 1}, "a", "b")
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
	w.delete("a")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.rollout())
}

func TestRestartDuringRollout(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 2}, "a", "b", "c")
	w.beginRollout("a")
	w.beginRollout("b")
	w.rolloutWaits("c", releasev1alpha1.ReasonRolloutQueued)

	w.start(testChart(t, "1.1.0"))
	w.passes("c", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.Take())
	expect.Equal(t, "counts", rollout.Counts{Queued: 1, Active: 2}, w.rollout())
	w.passes("b", controller.SpecChange)
	w.change("a", suspended(true))
	w.passesUntilWritten("a")
	expect.Equal(t, "counts after one is suspended", rollout.Counts{Active: 2}, w.rollout())
}

func TestHeldShopsTakeNoTurn(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Shop)
		reason string
		// held is the reason of UpgradeHeld while the rollout is halted.
		held string
	}{
		{"suspended", suspended(true), releasev1alpha1.ReasonSuspendedBySpec, releasev1alpha1.ReasonRolloutHalted},
		{"outside of its window", opensAt("10 3 * * *", "UTC"), releasev1alpha1.ReasonOutsideWindow, releasev1alpha1.ReasonOutsideWindow},
		{"waiting for a dependency", waitsFor("missing"), reasonWaiting, releasev1alpha1.ReasonRolloutHalted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "a", "b", "c")
			w.report("a", func(shop *Shop) {
				shop.Status.ObservedGeneration = 2
				meta.FindStatusCondition(shop.Status.Conditions, releasev1alpha1.ConditionDeployed).ObservedGeneration = 2
			})
			w.change("a", test.change) // The observed generation makes the chart the only change.
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "Ready", "False "+test.reason, w.conditions("a")["Ready"])
			if got := w.message("a", apimeta.ConditionReady); slices.Contains([]string{queued, halted}, got) {
				t.Errorf("the message of Ready is %q", got)
			}
			expect.Equal(t, "counts", rollout.Counts{}, w.rollout())

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

func TestUnreadableInputsLoseTheirTurn(t *testing.T) {
	w := newWorld(t)
	w.setSecret("first-key")
	for _, shop := range []*Shop{newShop("a"), newShop("b", fromSecret), newShop("c")} {
		w.create(shop)
		w.passes(shop.Name, controller.SpecChange)
	}
	w.limits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
	w.setSecret("second-key")
	w.secretErr = errPlain
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "counts", rollout.Counts{Active: 1}, w.rollout())
	_, err := w.pass("b", controller.DependencyReady)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
}

func TestBusyReleaseLosesItsTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1}, "a", "b")
	w.engine.Failures = []error{&helm.BusyError{Release: "a", Status: "being changed"}}
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False ReleaseBusy", w.conditions("a")["Ready"])
	expect.Equal(t, "counts", rollout.Counts{}, w.rollout())
}
