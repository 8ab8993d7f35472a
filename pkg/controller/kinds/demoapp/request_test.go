// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// asks sets the annotations of a user's request; an empty value sets none.
func asks(requestedAt, forceAt string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		app.Annotations = map[string]string{}
		if requestedAt != "" {
			app.Annotations[releasev1alpha1.AnnotationRequestedAt] = requestedAt
		}
		if forceAt != "" {
			app.Annotations[releasev1alpha1.AnnotationForceAt] = forceAt
		}
	}
}

func TestRequest(t *testing.T) {
	longest := strings.Repeat("ü", maxRequestLength)
	answer := []string{"apply demoapps/status a"}
	upgrade := []string{"Upgrade a Requested", "apply demoapps/status a"}
	tests := []struct {
		name            string
		asks            func(*v1alpha1.DemoApp)
		calls           []string
		handled, forced string
		event           string
	}{
		{"nothing", asks("", ""), nil, "", "", ""},
		{"requested pass", asks("now", ""), answer, "now", "", ""},
		{"longest value", asks(longest, ""), answer, longest, "", ""},
		{"too long", asks(longest+"x", longest+"x"), nil, "", "", "its value has 257 characters; it may have 256"},
		{"no value", func(app *v1alpha1.DemoApp) {
			app.Annotations = map[string]string{releasev1alpha1.AnnotationRequestedAt: "", releasev1alpha1.AnnotationForceAt: ""}
		}, nil, "", "", "it has no value"},
		{"forced upgrade", asks("now", "now"), upgrade, "now", "now", ""},
		{"forced upgrade with another value", asks("now", "then"), answer, "now", "", ""},
		{"forced upgrade without a request", asks("", "now"), nil, "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			w.change("a", test.asks)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.take())
			expect.Equal(t, "lastHandledRequestedAt", test.handled, w.app("a").Status.LastHandledRequestedAt)
			expect.Equal(t, "lastHandledForceAt", test.forced, w.app("a").Status.LastHandledForceAt)
			if test.event != "" {
				events := w.recorder.take()
				expect.Equal(t, "number of events", 1, len(events))
				expect.Contains(t, "event", events[0], "a Warning RequestIgnored Reconcile Annotation demo.example.com/requested-at is ignored: "+test.event)
			}
			w.recorder.take()
			w.passes("a", controller.SpecChange)
			w.start(testChart(t, "1.0.0"))
			if test.event == "" {
				w.passes("a", controller.SpecChange)
			}
			expect.Equal(t, "requests of later passes", []string(nil), w.calls.take())
			expect.Equal(t, "events of later passes", []string(nil), w.recorder.take())
		})
	}
}

func TestForcedUpgrade(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.change("a", asks("now", "now"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonUserRequested, w.app("a").Status.LastUpgradeReason)
	expect.Equal(t, "revision", int64(2), w.app("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "events", []string{"a Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.0.0 (UserRequested)"}, w.recorder.take())
	expect.Equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	// The force-at value is added after the request was handled.
	w.change("a", asks("later", ""))
	w.passes("a", controller.SpecChange)
	w.change("a", asks("later", "later"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a Requested", "apply demoapps/status a"}, w.calls.take())
}

func TestForcedUpgradeFails(t *testing.T) {
	w := deployed(t)
	w.engine.Failures = []error{errPlain}
	w.change("a", asks("now", "now"))
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "answers", []string{"now", ""}, []string{w.app("a").Status.LastHandledRequestedAt, w.app("a").Status.LastHandledForceAt})
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "requests", []string{"Upgrade a Failed", "apply demoapps/status a"}, w.calls.take())
	expect.Equal(t, "answer", "now", w.app("a").Status.LastHandledForceAt)

	// A terminal failure is not retried.
	w.engine.Failures = []error{&helm.RenderError{Chart: "demo-app", Err: errPlain}}
	w.change("a", asks("later", "later"))
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "terminal", true, controller.IsTerminal(err))
	expect.Equal(t, "answer", "later", w.app("a").Status.LastHandledForceAt)
}

func TestHeldForcedUpgrade(t *testing.T) {
	w := deployed(t)
	w.change("a", waitsFor("b"))
	w.change("a", asks("now", "now"))
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply demoapps/status a", "Repair a Drift", "apply demoapps/status a"}, w.calls.take())
	expect.Equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
	expect.Equal(t, "answers", []string{"now", ""}, []string{w.app("a").Status.LastHandledRequestedAt, w.app("a").Status.LastHandledForceAt})
	w.change("a", suspended(true))
	w.change("a", waitsFor(""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests while suspended", []string{"apply demoapps/status a"}, w.calls.take())
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a Requested", "apply demoapps/status a"}, w.calls.take())
}

func TestRequestIsHandledDespiteFailure(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.change("a", asks("now", ""))
	w.engine.ObserveErr = helm.ErrNotSynced
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "lastHandledRequestedAt of a pass that could not begin", "", w.app("a").Status.LastHandledRequestedAt)
	w.engine.ObserveErr = nil
	w.engine.Failures = []error{errPlain}
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "answer", "now", w.app("a").Status.LastHandledRequestedAt)
}

func TestRequestIsHandledWhilePodsStart(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	w.change("a", asks("now", ""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply demoapps/status a"}, w.calls.take())
	expect.Equal(t, "answer", "now", w.app("a").Status.LastHandledRequestedAt)
}

func TestRequestRetriesRefusedAttempt(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.Failures = []error{&helm.RenderError{Chart: "demo-app", Err: errPlain}}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "terminal", true, controller.IsTerminal(err))
	w.clock.Step(time.Second)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while stalled", []string(nil), w.calls.take())
	w.change("a", asks("now", ""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a InputsChanged", "apply demoapps/status a"}, w.calls.take())
	expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
}
