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
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
)

// TestChangedInputsPassHaltedRollout: a Shop that failed with the newer chart and has
// changed inputs does not wait for the rollout.
func TestChangedInputsPassHaltedRollout(t *testing.T) {
	changes := map[string]func(w *world){
		"spec":   func(w *world) { w.change("a", says("good")) },
		"Secret": func(w *world) { w.setSecret("second-key") },
		"Secret after a restart": func(w *world) {
			w.start(testChart(w.t, "1.1.0"))
			w.setSecret("second-key")
		},
		"Secret while suspended": func(w *world) {
			w.setSecret("second-key")
			w.change("a", suspended(true))
			w.passes("a", controller.SpecChange)
			w.change("a", suspended(false))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("first-key")
			for _, shop := range []*Shop{newShop("a", fromSecret), newShop("b"), newShop("c")} {
				w.create(shop)
				w.passes(shop.Name, controller.SpecChange)
			}
			w.limits = rollout.Limits{Active: 5, Failed: 1}
			w.start(testChart(t, "1.1.0"))
			w.change("b", asks("now", "now"))
			w.engine.Failures = []error{&helm.RenderError{Err: errPlain}, &helm.RenderError{Err: errPlain}}
			for _, name := range []string{"a", "b"} {
				_, err := w.pass(name, controller.SpecChange)
				expect.Equal(t, name+" failed", true, err != nil)
			}
			w.rolloutWaits("c", releasev1alpha1.ReasonRolloutHalted)
			change(w)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "chart", "1.1.0", w.shop("a").Status.DeployedRelease.ChartVersion)
		})
	}
}

// TestRemediatedShopsWaitForTurn: for a Shop whose own change was rolled back, only the
// chart changes.
func TestRemediatedShopsWaitForTurn(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newShop(name, func(shop *Shop) { shop.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
		w.passes(name, controller.SpecChange)
		w.change(name, says("other"))
		w.engine.Failures = []error{errPlain}
		_, err := w.pass(name, controller.SpecChange)
		expect.Equal(t, name+" failed", true, err != nil)
		w.passes(name, controller.Retry)
		expect.Equal(t, "Ready", "False RolledBack", w.conditions(name)[apimeta.ConditionReady])
	}
	w.limits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "UpgradeHeld", "True RolloutQueued", w.conditions("b")[releasev1alpha1.ConditionUpgradeHeld])
	expect.Equal(t, "chart of b", "1.0.0", w.shop("b").Status.DeployedRelease.ChartVersion)
}

// TestFailedShopRetriesAfterRestart: a new process cannot know whether a Shop failed with these
// inputs, if the attempt left no revision and the binding has no version of the inputs. The Shop is
// retried, and the rollout stays halted until an attempt succeeds.
func TestFailedShopRetriesAfterRestart(t *testing.T) {
	changes := map[string]func(w *world){
		"chart":             func(w *world) { w.start(testChart(w.t, "1.1.0")) },
		"operator's values": func(w *world) { w.restart("new") },
	}
	for name, change := range changes {
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				w := newWorld(t)
				w.unversioned, w.limits = true, rollout.Limits{Active: 2, Failed: 1}
				for _, name := range []string{"b", "a"} {
					w.clock.Step(time.Second) // The Shop that waits is the older one.
					w.create(newShop(name, func(shop *Shop) { shop.CreationTimestamp = metav1.NewTime(w.clock.Now()) }))
					w.passes(name, controller.SpecChange)
				}
				change(w)
				w.engine.Failures = []error{&helm.RenderError{Err: errPlain}}
				_, _ = w.pass("a", controller.SpecChange) // The status reports the error.
				w.passes("b", controller.SpecChange)

				change(w)
				w.engine.Failures = []error{&helm.RenderError{Err: errPlain}}
				for _, name := range append(order, "b", "b") {
					_, _ = w.pass(name, controller.SpecChange)
				}
				expect.Equal(t, "failures that are left", 0, len(w.engine.Failures))
				expect.Equal(t, "counts after a restart", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.rollout())
				expect.Equal(t, "Ready of b", "False RolloutHalted", w.conditions("b")[apimeta.ConditionReady])
				expect.Equal(t, "revision of b", int64(1), w.shop("b").Status.DeployedRelease.Revision)

				change(w)
				w.passes("a", controller.SpecChange)
				expect.Equal(t, "Ready of a", "True Healthy", w.conditions("a")[apimeta.ConditionReady])
				w.passes("b", controller.DependencyReady)
				expect.Equal(t, "Ready of b", "True Healthy", w.conditions("b")[apimeta.ConditionReady])
				expect.Equal(t, "counts at the end", rollout.Counts{}, w.rollout())
			})
		}
	}
}

// TestFailuresThatDoNotHaltTakeTurns: after a restart with other values, Shops that failed do not all
// get the values at once. Failures of objects do not halt the rollout, and without a limit none does.
func TestFailuresThatDoNotHaltTakeTurns(t *testing.T) {
	for name, test := range map[string]struct {
		failed int
		err    error
	}{
		"failures of objects":  {1, &helm.RenderError{Err: fmt.Errorf("%w: values.a", chart.ErrInvalidValues)}},
		"no limit of failures": {-1, &helm.RenderError{Err: errPlain}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.unversioned, w.limits = true, rollout.Limits{Active: 1, Failed: test.failed}
			names := []string{"a", "b", "c"}
			for _, name := range names {
				w.create(newShop(name))
				w.passes(name, controller.SpecChange)
			}
			w.restart("new")
			for _, name := range names {
				w.engine.Failures = []error{test.err}
				_, _ = w.pass(name, controller.SpecChange) // The status reports the error.
			}
			w.restart("fixed")
			for _, name := range names {
				w.engine.Mutate(keyOf(name), releasetest.SetHealth(status.InProgressStatus, "0 of 1 pods are ready", 0))
				w.passesUntilWritten(name)
			}
			expect.Equal(t, "counts", rollout.Counts{Queued: 2, Active: 1}, w.rollout())
		})
	}
}

// TestLostStatusKeepsTurn: a failure whose status could not be written is found again by the retry.
// Until then, no other Shop begins in its place.
func TestLostStatusKeepsTurn(t *testing.T) {
	w := fleet(t, rollout.Limits{Active: 1, Failed: 1}, "b", "a")
	w.statusErr = errPlain
	w.engine.Failures = []error{&helm.RenderError{Err: errPlain}, &helm.RenderError{Err: errPlain}}
	_, _ = w.pass("a", controller.SpecChange) // Its status is lost.
	expect.Equal(t, "counts after the lost status", rollout.Counts{Active: 1}, w.rollout())
	w.statusErr = nil
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutQueued)
	_, _ = w.pass("a", controller.Retry)
	expect.Equal(t, "failures that are left", 0, len(w.engine.Failures))
	w.rolloutWaits("b", releasev1alpha1.ReasonRolloutHalted)
	expect.Equal(t, "counts after the retry", rollout.Counts{Queued: 1, Failed: 1, Halted: true}, w.rollout())
}
