// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

func TestDrift(t *testing.T) {
	tests := []struct {
		name    string
		meddle  func(*fakeRelease)
		message string
		why     controller.Reason
		reason  v1alpha1.UpgradeReason
	}{
		{"edited", edits("ConfigMap"), "ConfigMap a (changed)", controller.Drift, v1alpha1.UpgradeReasonDriftDetected},
		{"deleted", removes("Deployment"), "Deployment a (missing)", controller.Drift, v1alpha1.UpgradeReasonDriftDetected},
		{"made anew", replaces("Secret"), "Secret a (replaced)", controller.Drift, v1alpha1.UpgradeReasonDriftDetected},
		{
			"two of them", func(r *fakeRelease) { edits("ConfigMap")(r); removes("Service")(r) },
			"ConfigMap a (changed), Service a (missing)", controller.Drift, v1alpha1.UpgradeReasonDriftDetected,
		},
		{"no event told", edits("Service"), "Service a (changed)", controller.PeriodicResync, v1alpha1.UpgradeReasonPeriodicResync},
		{"found after a restart", edits("Service"), "Service a (changed)", controller.SpecChange, v1alpha1.UpgradeReasonDriftDetected},
		{
			"beside the periodic look", edits("Service"), "Service a (changed)", controller.PeriodicResync | controller.HealthChange,
			v1alpha1.UpgradeReasonDriftDetected,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			before := w.app("a").Status
			w.engine.meddle("a", test.meddle)
			w.engine.executing = func() {
				equal(t, "conditions when the engine begins", conditions("Drifted", "True ObjectsChanged",
					"Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
				equal(t, "what drifted", test.message, w.message("a", v1alpha1.ConditionDrifted))
			}
			w.passes("a", test.why)
			equal(t, "requests", []string{"apply demoapps/status a", "Repair a Drift", "apply demoapps/status a"}, w.calls.take())
			equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			equal(t, "events", []string{"a Normal DriftCorrected Repair Corrected " + test.message}, w.recorder.take())
			after := w.app("a").Status
			equal(t, "revision", before.DeployedRelease, after.DeployedRelease)
			equal(t, "lastUpgradeReason", test.reason, after.LastUpgradeReason)
			equal(t, "lastUpgradeAt", w.clock.Now(), after.LastUpgradeAt.UTC())
			w.passes("a", controller.Drift)
			equal(t, "requests of the next pass", []string(nil), w.calls.take())
		})
	}
}

func TestReleaseChangedByHand(t *testing.T) {
	tests := []struct {
		name    string
		meddle  func(*fakeRelease)
		why     controller.Reason
		action  string
		message string
		after   int64
		reason  v1alpha1.UpgradeReason
		event   string
	}{
		{
			"rolled back", rewrites(2, "deployed"), controller.Drift, "Upgrade a ReleaseChanged",
			"Revision 2 (deployed) of the release was not made by this operator", 3, v1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart demo-app 1.0.0 (DriftDetected)",
		},
		{
			"rolled back, and no event told", rewrites(2, "deployed"), controller.PeriodicResync, "Upgrade a ReleaseChanged",
			"Revision 2 (deployed) of the release was not made by this operator", 3, v1alpha1.UpgradeReasonPeriodicResync,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart demo-app 1.0.0 (PeriodicResync)",
		},
		{
			"a failed upgrade", rewrites(2, "failed"), controller.Drift, "Upgrade a ReleaseChanged",
			"Revision 2 (failed) of the release was not made by this operator", 3, v1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart demo-app 1.0.0 (DriftDetected)",
		},
		{
			"uninstalled, history kept", rewrites(1, "uninstalled"), controller.Drift, "Install a ReleaseChanged",
			"Revision 1 (uninstalled) of the release was not made by this operator", 2, v1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.0.0 (DriftDetected)",
		},
		{
			"uninstalled", func(r *fakeRelease) { r.record = nil; clear(r.live) }, controller.Drift, "Install a NotInstalled",
			"Release a was uninstalled", 1, v1alpha1.UpgradeReasonDriftDetected,
			"Normal DriftCorrected Repair Corrected Release a was uninstalled",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			w.engine.meddle("a", test.meddle)
			w.engine.executing = func() {
				equal(t, "Drifted when the engine begins", "True ReleaseChanged", w.conditions("a")["Drifted"])
				equal(t, "what drifted", test.message, w.message("a", v1alpha1.ConditionDrifted))
			}
			w.passes("a", test.why)
			equal(t, "requests", []string{"apply demoapps/status a", test.action, "apply demoapps/status a"}, w.calls.take())
			equal(t, "lastUpgradeReason", test.reason, w.app("a").Status.LastUpgradeReason)
			equal(t, "revision", test.after, w.app("a").Status.DeployedRelease.Revision)
			equal(t, "events", []string{"a " + test.event}, w.recorder.take())
			if drifted, ok := w.conditions("a")["Drifted"]; ok {
				t.Errorf("Drifted is still %s", drifted)
			}
		})
	}
}

func TestAttemptThatWasCutOff(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.meddle("a", func(r *fakeRelease) {
		inputs, err := helm.Release{
			Namespace: namespace, Name: "a", Chart: testChart(t, "1.0.0"),
			Values: desiredValues(w.app("a").Spec, plainKey, exposure{}), Owner: w.engine.wanted.Owner,
		}.InputDigest()
		must(t, err)
		r.record = &helm.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: inputs, Changed: began}
	})
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	equal(t, "requests", []string{"Upgrade a Interrupted", "apply demoapps/status a"}, w.calls.take())
	equal(t, "revision", int64(2), w.app("a").Status.DeployedRelease.Revision)
	equal(t, "lastUpgradeReason", v1alpha1.UpgradeReasonRetryAfterFailure, w.app("a").Status.LastUpgradeReason)
}

func TestReleaseThatIsBusy(t *testing.T) {
	busy := &helm.BusyError{Release: "ns/a", Status: "being changed"}
	tests := []struct {
		name     string
		world    func(t *testing.T) *world
		deployed string
		next     time.Duration
	}{
		{"upgraded by somebody else", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.engine.meddle("a", rewrites(2, "pending-upgrade"))
			return w
		}, "True InstallSucceeded", time.Minute},
		{"installed by somebody else at the same moment", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newApp("a"))
			w.engine.failures = []error{busy}
			return w
		}, "False ReleaseBusy", busyRetry},
		{"upgraded by somebody else at the same moment", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			w.engine.failures = []error{fmt.Errorf("upgrade: %w", busy)}
			return w
		}, "True InstallSucceeded", busyRetry},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			generation := w.app("a").Status.ObservedGeneration
			result := w.passes("a", controller.Drift)
			equal(t, "next look", test.next, result.RequeueAfter)
			equal(t, "conditions", conditions("Ready", "False ReleaseBusy", "Reconciling", "True ReleaseBusy",
				"Deployed", test.deployed), w.conditions("a"))
			equal(t, "events", []string{"a Warning ReleaseBusy Reconcile release ns/a is being changed by somebody else"}, w.recorder.take())
			equal(t, "observedGeneration", generation, w.app("a").Status.ObservedGeneration)
			if r := w.engine.releases[keyOf("a")]; r.record != nil && !r.record.Own {
				r.record.Status = "deployed"
			}
			w.passes("a", controller.PeriodicResync)
			equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
		})
	}
}

func TestDriftThatCannotBeAnnounced(t *testing.T) {
	w := deployed(t)
	w.engine.meddle("a", edits("Secret"))
	w.statusErr = errPlain
	_, err := w.pass("a", controller.Drift)
	if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	equal(t, "requests", []string{"apply demoapps/status a", "apply demoapps/status a"}, w.calls.take())
	equal(t, "events", []string(nil), w.recorder.take())
	w.statusErr = nil
	w.passes("a", controller.Drift|controller.Retry)
	equal(t, "requests of the retry", []string{"apply demoapps/status a", "Repair a Drift", "apply demoapps/status a"}, w.calls.take())
}

func TestTransientFailure(t *testing.T) {
	tests := []struct {
		name     string
		world    func(t *testing.T) *world
		reason   string
		deployed string
		extra    []string
		upgraded v1alpha1.UpgradeReason
	}{
		{"install", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newApp("a"))
			return w
		}, v1alpha1.ReasonInstallFailed, "False InstallFailed", nil, v1alpha1.UpgradeReasonRetryAfterFailure},
		{"upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			return w
		}, v1alpha1.ReasonUpgradeFailed, "False UpgradeFailed", nil, v1alpha1.UpgradeReasonRetryAfterFailure},
		{"repair", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.engine.meddle("a", edits("Secret"))
			return w
		}, v1alpha1.ReasonRepairFailed, "True InstallSucceeded", []string{"Drifted", "True ObjectsChanged"}, v1alpha1.UpgradeReasonDriftDetected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			before := w.app("a").Status
			failure := fmt.Errorf("apply Secret with %q: %w", plainKey, errPlain)
			w.engine.failures = []error{failure, failure}
			for _, why := range []controller.Reason{controller.Drift, controller.Drift | controller.Retry} {
				_, err := w.pass("a", why)
				if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
					t.Errorf("error is %v", err)
				}
			}
			want := conditions(append([]string{
				"Ready", "False " + test.reason, "Reconciling", "True " + test.reason,
				"Failed", "True " + test.reason, "Deployed", test.deployed,
			}, test.extra...)...)
			equal(t, "conditions", want, w.conditions("a"))
			equal(t, "message", `apply Secret with "REDACTED": connection refused`, w.message("a", v1alpha1.ConditionFailed))
			equal(t, "events", []string{"a Warning " + test.reason + ` Reconcile apply Secret with "REDACTED": connection refused`}, w.recorder.take())
			equal(t, "observedGeneration", before.ObservedGeneration, w.app("a").Status.ObservedGeneration)
			equal(t, "lastUpgradeReason", before.LastUpgradeReason, w.app("a").Status.LastUpgradeReason)

			w.passes("a", controller.Drift|controller.Retry)
			equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
			equal(t, "Failed in the end", "", w.conditions("a")["Failed"])
			equal(t, "lastUpgradeReason in the end", test.upgraded, w.app("a").Status.LastUpgradeReason)
			equal(t, "number of events in the end", 1, len(w.recorder.take()))
		})
	}
}

func TestLookThatFails(t *testing.T) {
	t.Run("caches that are not filled yet", func(t *testing.T) {
		w := deployed(t)
		w.engine.observeErr = fmt.Errorf("observe: %w", helm.ErrNotSynced)
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, helm.ErrNotSynced) || controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		equal(t, "requests", []string(nil), w.calls.take())
	})
	t.Run("anything else", func(t *testing.T) {
		w := deployed(t)
		w.engine.observeErr = errPlain
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	})
	t.Run("after the change", func(t *testing.T) {
		w := newWorld(t)
		w.create(newApp("a"))
		w.engine.executing = func() { w.engine.observeErr = errPlain }
		_, err := w.pass("a", controller.SpecChange)
		if !errors.Is(err, errPlain) {
			t.Errorf("error is %v", err)
		}
		equal(t, "conditions", conditions("Ready", "False ObserveFailed", "Reconciling", "True ObserveFailed"), w.conditions("a"))
		w.engine.observeErr, w.engine.executing = nil, nil
		w.passes("a", controller.SpecChange|controller.Retry)
		equal(t, "requests of the retry", []string{"apply demoapps/status a"}, w.calls.take())
		equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
		equal(t, "lastUpgradeReason", v1alpha1.UpgradeReasonSpecGenerationChanged, w.app("a").Status.LastUpgradeReason)
	})
}

// terminalFailures are the failures that come again until something changes.
func terminalFailures() map[string]error {
	object := helm.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "a"}
	return map[string]error{
		v1alpha1.ReasonRenderFailed:      &helm.RenderError{Chart: "demo-app", Err: fmt.Errorf("apiKey %q: no", plainKey)},
		v1alpha1.ReasonRefused:           &helm.RefusedError{Object: object, Err: errPlain},
		v1alpha1.ReasonOwnershipConflict: &helm.OwnershipConflictError{Object: object, Holder: "Helm release ns/other"},
		v1alpha1.ReasonReleaseTooLarge:   &helm.ReleaseTooLargeError{Release: "ns/a", Err: errPlain},
	}
}

func TestTerminalFailure(t *testing.T) {
	for reason, failure := range terminalFailures() {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			w.create(newApp("a"))
			w.engine.failures = []error{failure}
			result, err := w.pass("a", controller.SpecChange)
			if !controller.IsTerminal(err) || !errors.Is(err, failure) {
				t.Errorf("error is %v", err)
			}
			if result.RequeueAfter < refusedRetry*9/10 || result.RequeueAfter > refusedRetry*11/10 {
				t.Errorf("next look in %v", result.RequeueAfter)
			}
			want := conditions("Ready", "False "+reason, "Stalled", "True "+reason, "Failed", "True "+reason, "Deployed", "False "+reason)
			equal(t, "conditions", want, w.conditions("a"))
			equal(t, "message", redact([]string{plainKey}, failure.Error()), w.message("a", v1alpha1.ConditionStalled))
			equal(t, "observedGeneration", int64(1), w.app("a").Status.ObservedGeneration)
			equal(t, "events", []string{"a Warning " + reason + " Reconcile " + redact([]string{plainKey}, failure.Error())}, w.recorder.take())

			// After a failure the queue hands its reasons to the next pass.
			for _, why := range []controller.Reason{controller.Drift, controller.HealthChange, controller.SpecChange | controller.Retry} {
				result := w.passes("a", why)
				equal(t, "requests on "+why.String(), []string(nil), w.calls.take())
				if result.RequeueAfter > refusedRetry*11/10 {
					t.Errorf("on %v, next look in %v", why, result.RequeueAfter)
				}
			}

			w.clock.Step(result.RequeueAfter)
			w.passes("a", controller.PeriodicResync|controller.Retry)
			equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			equal(t, "lastUpgradeReason", v1alpha1.UpgradeReasonRetryAfterFailure, w.app("a").Status.LastUpgradeReason)
			equal(t, "revision", int64(1), w.app("a").Status.DeployedRelease.Revision)
		})
	}
}

func TestWhatEndsARest(t *testing.T) {
	fromSecret := keyFrom("keys", "k")
	tests := []struct {
		name     string
		change   func(w *world)
		attempts bool
		upgraded v1alpha1.UpgradeReason
	}{
		{"nothing", func(*world) {}, false, ""},
		{"another spec", func(w *world) { w.change("a", says("other")) }, true, v1alpha1.UpgradeReasonSpecGenerationChanged},
		{
			"another spec that means the same", func(w *world) {
				w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Image = defaultImage })
			}, true, v1alpha1.UpgradeReasonSpecGenerationChanged,
		},
		{"another key", func(w *world) { w.secret(map[string]string{"k": "another-secret"}) }, true, v1alpha1.UpgradeReasonRetryAfterFailure},
		{"another chart", func(w *world) { w.start(testChart(t, "1.1.0")) }, true, v1alpha1.UpgradeReasonRetryAfterFailure},
		{"a new process", func(w *world) { w.start(testChart(t, "1.0.0")) }, true, v1alpha1.UpgradeReasonRetryAfterFailure},
		{"time", func(w *world) { w.clock.Step(2 * refusedRetry) }, true, v1alpha1.UpgradeReasonRetryAfterFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.secret(map[string]string{"k": plainKey})
			w.create(newApp("a", fromSecret))
			w.engine.failures = []error{terminalFailures()[v1alpha1.ReasonOwnershipConflict]}
			if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
				t.Fatalf("error is %v", err)
			}
			test.change(w)
			w.passes("a", controller.SpecChange|controller.Retry)
			if !test.attempts {
				equal(t, "requests", []string(nil), w.calls.take())
				return
			}
			equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			equal(t, "lastUpgradeReason", test.upgraded, w.app("a").Status.LastUpgradeReason)
		})
	}
}

func TestRefusedKeyThatComesBack(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": plainKey})
	w.create(newApp("a", keyFrom("keys", "k")))
	w.engine.failures = []error{terminalFailures()[v1alpha1.ReasonOwnershipConflict]}
	if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
		t.Fatalf("error is %v", err)
	}
	for _, key := range []string{"another-secret", plainKey} {
		w.secret(map[string]string{"k": key})
		w.passes("a", controller.SpecChange)
		equal(t, "key", any(key), w.engine.wanted.Values["apiKey"])
		equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
	}
}

func TestRefusedUpgrade(t *testing.T) {
	failure := terminalFailures()[v1alpha1.ReasonRenderFailed]
	refused := func(t *testing.T) *world {
		t.Helper()
		w := deployed(t)
		w.change("a", says("bad"))
		w.engine.failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Fatalf("error is %v", err)
		}
		equal(t, "conditions", conditions("Ready", "False RenderFailed", "Stalled", "True RenderFailed",
			"Failed", "True RenderFailed", "Deployed", "False RenderFailed"), w.conditions("a"))
		equal(t, "deployed revision", int64(1), w.app("a").Status.DeployedRelease.Revision)
		return w
	}
	t.Run("taken back and asked for again", func(t *testing.T) {
		w := refused(t)
		w.change("a", says("hello"))
		w.passes("a", controller.SpecChange|controller.Retry)
		equal(t, "requests when it is taken back", []string{"apply demoapps/status a"}, w.calls.take())
		equal(t, "conditions when it is taken back", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
		w.change("a", says("bad"))
		w.engine.failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		equal(t, "Ready", "False RenderFailed", w.conditions("a")["Ready"])
	})
	t.Run("beside a dependency that goes away", func(t *testing.T) {
		w := newWorld(t)
		w.create(newApp("b"))
		w.passes("b", controller.SpecChange)
		w.create(newApp("a", waitsFor("b")))
		w.passes("a", controller.SpecChange)
		w.change("a", says("bad"))
		w.engine.failures = []error{failure}
		if _, err := w.pass("a", controller.SpecChange); !controller.IsTerminal(err) {
			t.Fatalf("error is %v", err)
		}
		w.report("b", isDown)
		w.engine.meddle("a", removes("ConfigMap"))
		w.passes("a", controller.DependencyReady|controller.Drift)
		equal(t, "requests", []string{"apply demoapps/status a", "Repair a Drift", "apply demoapps/status a"}, w.calls.take())
		equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
	})
	t.Run("beside a key that goes missing", func(t *testing.T) {
		w := refused(t)
		w.change("a", keyFrom("keys", "k"))
		w.passes("a", controller.SpecChange|controller.Retry)
		equal(t, "Ready", "False SecretNotFound", w.conditions("a")["Ready"])
		equal(t, "Stalled", "", w.conditions("a")["Stalled"])
		w.engine.meddle("a", removes("ConfigMap"))
		w.passes("a", controller.Drift)
		equal(t, "requests for drift in the meantime",
			[]string{"apply demoapps/status a", "Repair a Drift", "apply demoapps/status a"}, w.calls.take())
	})
}

func TestRepairThatIsRefused(t *testing.T) {
	w := deployed(t)
	w.engine.meddle("a", removes("ConfigMap"))
	w.engine.failures = []error{terminalFailures()[v1alpha1.ReasonRefused]}
	result, err := w.pass("a", controller.Drift)
	if !controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	equal(t, "conditions", conditions("Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused",
		"Deployed", "False Refused", "Drifted", "True ObjectsChanged"), w.conditions("a"))
	w.passes("a", controller.Drift|controller.Retry)
	equal(t, "requests on another event", []string(nil), w.calls.take())
	w.clock.Step(result.RequeueAfter)
	w.passes("a", controller.PeriodicResync|controller.Drift|controller.Retry)
	equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	equal(t, "lastUpgradeReason", v1alpha1.UpgradeReasonDriftDetected, w.app("a").Status.LastUpgradeReason)
}

func TestDriftOf(t *testing.T) {
	app := newApp("a", func(app *v1alpha1.DemoApp) {
		app.Status.ObservedGeneration = 1
		app.Status.DeployedRelease = &v1alpha1.DeployedRelease{Name: "a"}
	})
	tests := []struct {
		name     string
		app      *v1alpha1.DemoApp
		decision helm.Decision
		want     string
	}{
		{"nothing to do", app, helm.Decision{Action: helm.ActionNone}, ""},
		{"other inputs", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}, ""},
		{"a failure", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed}, ""},
		{"cut off", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInterrupted}, ""},
		{"unknown", app, helm.Decision{Action: helm.ActionReapply, Cause: helm.CauseBaselineUnknown}, ""},
		{"first install", newApp("a"), helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}, ""},
		{"somebody else at work", app, helm.Decision{Action: helm.ActionWait, Cause: helm.CauseReleaseChanged}, ""},
		{"uninstalled", app, helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}, v1alpha1.ReasonReleaseChanged},
		{"rolled back", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseReleaseChanged}, v1alpha1.ReasonReleaseChanged},
		{"drift", app, helm.Decision{Action: helm.ActionRepair, Cause: helm.CauseDrift}, v1alpha1.ReasonObjectsChanged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &pass{observed: test.app, app: test.app.DeepCopy(), plan: release.Plan{
				Decision: test.decision, Observed: helm.Snapshot{Record: &helm.Record{Revision: 2, Status: "deployed"}},
			}}
			reason, _ := driftOf(p, p.plan.Decision)
			equal(t, "reason", test.want, reason)
		})
	}
}

func TestTransitionTimesStay(t *testing.T) {
	w := deployed(t)
	before := meta.FindStatusCondition(w.app("a").Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	equal(t, "time of a condition that stayed True", before,
		meta.FindStatusCondition(w.app("a").Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime)
	w.change("a", keyFrom("keys", "k"))
	w.clock.Step(time.Minute)
	w.passes("a", controller.SpecChange)
	equal(t, "time of a condition that changed", metav1.NewTime(w.clock.Now()).UTC(),
		meta.FindStatusCondition(w.app("a").Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime.UTC())
}
