// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"fmt"
	"testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/test/expect"
)

func TestTransientFailureIsRetried(t *testing.T) {
	tests := []struct {
		name     string
		world    func(t *testing.T) *world
		reason   string
		deployed string
		extra    []string
		upgraded releasev1alpha1.UpgradeReason
	}{
		{"install", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newShop("a"))
			return w
		}, releasev1alpha1.ReasonInstallFailed, "False InstallFailed", nil, releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			return w
		}, releasev1alpha1.ReasonUpgradeFailed, "False UpgradeFailed", nil, releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"repair", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.engine.Mutate(keyOf("a"), releasetest.Edit("Secret"))
			return w
		}, releasev1alpha1.ReasonRepairFailed, "True InstallSucceeded", []string{"Drifted", "True ObjectsChanged"}, releasev1alpha1.UpgradeReasonDriftDetected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			before := w.shop("a").Status
			failure := fmt.Errorf("apply Secret with %q: %w", secretValue, errPlain)
			w.engine.Failures = []error{failure, failure}
			for _, why := range []controller.Reason{controller.Drift, controller.Drift | controller.Retry} {
				_, err := w.pass("a", why)
				if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
					t.Errorf("error is %v", err)
				}
			}
			want := releasetest.Conditions(append([]string{
				"Ready", "False " + test.reason, "Reconciling", "True " + test.reason,
				"Failed", "True " + test.reason, "Deployed", test.deployed,
			}, test.extra...)...)
			expect.Equal(t, "conditions", want, w.conditions("a"))
			expect.Equal(t, "message", `apply Secret with "REDACTED": connection refused`, w.message("a", releasev1alpha1.ConditionFailed))
			expect.Equal(t, "events", []string{"a Warning " + test.reason + ` Reconcile apply Secret with "REDACTED": connection refused`}, w.recorder.Take())
			expect.Equal(t, "observedGeneration", before.ObservedGeneration, w.shop("a").Status.ObservedGeneration)
			expect.Equal(t, "lastUpgradeReason", before.LastUpgradeReason, w.shop("a").Status.LastUpgradeReason)

			w.passes("a", controller.Drift|controller.Retry)
			expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "Failed in the end", "", w.conditions("a")["Failed"])
			expect.Equal(t, "lastUpgradeReason in the end", test.upgraded, w.shop("a").Status.LastUpgradeReason)
			expect.Equal(t, "number of events in the end", 1, len(w.recorder.Take()))
		})
	}
}

func TestObserveFailure(t *testing.T) {
	t.Run("caches are not synced", func(t *testing.T) {
		w := deployed(t)
		w.engine.ObserveErr = fmt.Errorf("observe: %w", helm.ErrNotSynced)
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, helm.ErrNotSynced) || controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		expect.Equal(t, "requests", []string(nil), w.calls.Take())
	})
	t.Run("another error", func(t *testing.T) {
		w := deployed(t)
		w.engine.ObserveErr = errPlain
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	})
	t.Run("after a change", func(t *testing.T) {
		w := newWorld(t)
		w.create(newShop("a"))
		w.engine.Executing = func() { w.engine.ObserveErr = errPlain }
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, errPlain) {
			t.Errorf("error is %v", err)
		}
		expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False ObserveFailed", "Reconciling", "True ObserveFailed"), w.conditions("a"))
		w.engine.ObserveErr, w.engine.Executing = nil, nil
		w.passes("a", controller.SpecChange|controller.Retry)
		expect.Equal(t, "requests of the retry", []string{"apply shops/status a"}, w.calls.Take())
		expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
		expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.shop("a").Status.LastUpgradeReason)
	})
}

// terminalFailures returns terminal errors by their reason.
func terminalFailures() map[string]error {
	object := helm.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "a"}
	return map[string]error{
		releasev1alpha1.ReasonRenderFailed:    &helm.RenderError{Chart: "shop", Err: fmt.Errorf("value %q: no", secretValue)},
		apimeta.ReasonRefused:                 &helm.RefusedError{Object: object, Err: errPlain},
		apimeta.ReasonOwnershipConflict:       &helm.OwnershipConflictError{Object: object, Holder: "Helm release ns/other"},
		releasev1alpha1.ReasonReleaseTooLarge: &helm.ReleaseTooLargeError{Release: "ns/a", Err: errPlain},
	}
}

func TestTerminalFailureStalls(t *testing.T) {
	for reason, failure := range terminalFailures() {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			w.create(newShop("a"))
			w.engine.Failures = []error{failure}
			result, err := w.pass("a", controller.SpecChange)
			if !controller.IsTerminal(err) || !errors.Is(err, failure) {
				t.Errorf("error is %v", err)
			}
			if result.RequeueAfter < release.RefusedRetry*9/10 || result.RequeueAfter > release.RefusedRetry*11/10 {
				t.Errorf("requeued after %v", result.RequeueAfter)
			}
			want := releasetest.Conditions("Ready", "False "+reason, "Stalled", "True "+reason, "Failed", "True "+reason, "Deployed", "False "+reason)
			expect.Equal(t, "conditions", want, w.conditions("a"))
			expect.Equal(t, "message", redact.Text([]string{secretValue}, failure.Error()), w.message("a", apimeta.ConditionStalled))
			expect.Equal(t, "observedGeneration", int64(1), w.shop("a").Status.ObservedGeneration)
			expect.Equal(t, "events", []string{"a Warning " + reason + " Reconcile " + redact.Text([]string{secretValue}, failure.Error())}, w.recorder.Take())

			// After a failure, the queue passes its reasons to the next pass.
			for _, why := range []controller.Reason{controller.Drift, controller.HealthChange, controller.SpecChange | controller.Retry} {
				result := w.passes("a", why)
				expect.Equal(t, "requests on "+why.String(), []string(nil), w.calls.Take())
				if result.RequeueAfter > release.RefusedRetry*11/10 {
					t.Errorf("on %v, requeued after %v", why, result.RequeueAfter)
				}
			}

			w.clock.Step(result.RequeueAfter)
			w.passes("a", controller.PeriodicResync|controller.Retry)
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonRetryAfterFailure, w.shop("a").Status.LastUpgradeReason)
			expect.Equal(t, "revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)
		})
	}
}

func TestRetryAfterRefusal(t *testing.T) {
	tests := []struct {
		name     string
		change   func(w *world)
		attempts bool
		upgraded releasev1alpha1.UpgradeReason
	}{
		{"nothing", func(*world) {}, false, ""},
		{"another spec", func(w *world) { w.change("a", says("other")) }, true, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{
			"another spec with the same values", func(w *world) {
				w.change("a", func(shop *Shop) { shop.Spec.Comment = "other" })
			}, true, releasev1alpha1.UpgradeReasonSpecGenerationChanged,
		},
		{"another Secret", func(w *world) { w.setSecret("another-secret") }, true, releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"another chart", func(w *world) { w.start(testChart(t, "1.1.0")) }, true, releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"a new process", func(w *world) { w.start(testChart(t, "1.0.0")) }, true, releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"time", func(w *world) { w.clock.Step(2 * release.RefusedRetry) }, true, releasev1alpha1.UpgradeReasonRetryAfterFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret(secretValue)
			w.create(newShop("a", fromSecret))
			w.engine.Failures = []error{terminalFailures()[apimeta.ReasonOwnershipConflict]}
			if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
				t.Fatalf("error is %v", err)
			}
			test.change(w)
			w.passes("a", controller.SpecChange|controller.Retry)
			if !test.attempts {
				expect.Equal(t, "requests", []string(nil), w.calls.Take())
				return
			}
			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "lastUpgradeReason", test.upgraded, w.shop("a").Status.LastUpgradeReason)
		})
	}
}

func TestRefusedInputsAreRetriedAfterOtherInputs(t *testing.T) {
	w := newWorld(t)
	w.setSecret(secretValue)
	w.create(newShop("a", fromSecret))
	w.engine.Failures = []error{terminalFailures()[apimeta.ReasonOwnershipConflict]}
	if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
		t.Fatalf("error is %v", err)
	}
	for _, key := range []string{"another-secret", secretValue} {
		w.setSecret(key)
		w.passes("a", controller.SpecChange)
		expect.Equal(t, "key", any(key), w.engine.Desired.Values["secret"])
		expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
	}
}

func TestRefusedUpgrade(t *testing.T) {
	failure := terminalFailures()[releasev1alpha1.ReasonRenderFailed]
	refused := func(t *testing.T) *world {
		t.Helper()
		w := deployed(t)
		w.change("a", says("bad"))
		w.engine.Failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Fatalf("error is %v", err)
		}
		expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False RenderFailed", "Stalled", "True RenderFailed",
			"Failed", "True RenderFailed", "Deployed", "False RenderFailed"), w.conditions("a"))
		expect.Equal(t, "deployed revision", int64(1), w.shop("a").Status.DeployedRelease.Revision)
		return w
	}
	t.Run("reverted and requested again", func(t *testing.T) {
		w := refused(t)
		w.change("a", says("hello"))
		w.passes("a", controller.SpecChange|controller.Retry)
		expect.Equal(t, "requests when it is taken back", []string{"apply shops/status a"}, w.calls.Take())
		expect.Equal(t, "conditions when it is taken back", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
		w.change("a", says("bad"))
		w.engine.Failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		expect.Equal(t, "Ready", "False RenderFailed", w.conditions("a")["Ready"])
	})
	t.Run("with a dependency that is no longer deployed", func(t *testing.T) {
		w := newWorld(t)
		w.create(newShop("b"))
		w.passes("b", controller.SpecChange)
		w.create(newShop("a", waitsFor("b")))
		w.passes("a", controller.SpecChange)
		w.change("a", says("bad"))
		w.engine.Failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Fatalf("error is %v", err)
		}
		w.report("b", func(shop *Shop) { shop.Status.Conditions = nil })
		w.engine.Mutate(keyOf("a"), releasetest.Remove("ConfigMap"))
		w.passes("a", controller.DependencyReady|controller.Drift)
		expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
		expect.Equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
	})
	t.Run("with a missing value", func(t *testing.T) {
		w := refused(t)
		w.change("a", fromSecret)
		w.passes("a", controller.SpecChange|controller.Retry)
		expect.Equal(t, "Ready", "False SecretNotFound", w.conditions("a")["Ready"])
		expect.Equal(t, "Stalled", "", w.conditions("a")["Stalled"])
		w.engine.Mutate(keyOf("a"), releasetest.Remove("ConfigMap"))
		w.passes("a", controller.Drift)
		expect.Equal(t, "requests for drift",
			[]string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	})
}

func TestRefusedRepairStalls(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.Remove("ConfigMap"))
	w.engine.Failures = []error{terminalFailures()[apimeta.ReasonRefused]}
	result, err := w.pass("a", controller.Drift)
	if !controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused",
		"Deployed", "False Refused", "Drifted", "True ObjectsChanged"), w.conditions("a"))
	w.passes("a", controller.Drift|controller.Retry)
	expect.Equal(t, "requests on another event", []string(nil), w.calls.Take())
	w.clock.Step(result.RequeueAfter)
	w.passes("a", controller.PeriodicResync|controller.Drift|controller.Retry)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonDriftDetected, w.shop("a").Status.LastUpgradeReason)
}

// TestTooManyWaitingIsNoFailedAttempt: the limit of waiting workers says nothing about
// this release.
func TestTooManyWaitingIsNoFailedAttempt(t *testing.T) {
	w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback))
	w.change("a", says("other"))
	w.engine.Failures = []error{fmt.Errorf("hook: %w", controller.ErrTooManyWaiting)}

	_, err := w.pass("a", controller.SpecChange)

	if !errors.Is(err, controller.ErrTooManyWaiting) || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False UpgradeFailed", "Reconciling", "True UpgradeFailed",
		"Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "failures", (*releasev1alpha1.FailureCounts)(nil), w.shop("a").Status.Failures)
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
}
