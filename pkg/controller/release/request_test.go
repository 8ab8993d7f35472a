// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// asks sets the annotations of a user's request; an empty value sets none.
func asks(requestedAt, forceAt string) func(*Shop) {
	return func(shop *Shop) {
		shop.Annotations = map[string]string{}
		if requestedAt != "" {
			shop.Annotations[releasev1alpha1.AnnotationRequestedAt] = requestedAt
		}
		if forceAt != "" {
			shop.Annotations[releasev1alpha1.AnnotationForceAt] = forceAt
		}
	}
}

func TestRequest(t *testing.T) {
	longest := strings.Repeat("ü", release.MaxRequestLength)
	answer := []string{"apply shops/status a"}
	upgrade := []string{"Upgrade a Requested", "apply shops/status a"}
	tests := []struct {
		name            string
		asks            func(*Shop)
		calls           []string
		handled, forced string
		event           string
	}{
		{"nothing", asks("", ""), nil, "", "", ""},
		{"requested pass", asks("now", ""), answer, "now", "", ""},
		{"longest value", asks(longest, ""), answer, longest, "", ""},
		{"too long", asks(longest+"x", longest+"x"), nil, "", "", "its value has 257 characters; it may have 256"},
		{"no value", func(shop *Shop) {
			shop.Annotations = map[string]string{releasev1alpha1.AnnotationRequestedAt: "", releasev1alpha1.AnnotationForceAt: ""}
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
			expect.Equal(t, "requests", test.calls, w.calls.Take())
			expect.Equal(t, "lastHandledRequestedAt", test.handled, w.shop("a").Status.LastHandledRequestedAt)
			expect.Equal(t, "lastHandledForceAt", test.forced, w.shop("a").Status.LastHandledForceAt)
			if test.event != "" {
				events := w.recorder.Take()
				expect.Equal(t, "number of events", 1, len(events))
				expect.Contains(t, "event", events[0], "a Warning RequestIgnored Reconcile Annotation demo.example.com/requested-at is ignored: "+test.event)
			}
			w.recorder.Take()
			w.passes("a", controller.SpecChange)
			w.start(testChart(t, "1.0.0"))
			if test.event == "" {
				w.passes("a", controller.SpecChange)
			}
			expect.Equal(t, "requests of later passes", []string(nil), w.calls.Take())
			expect.Equal(t, "events of later passes", []string(nil), w.recorder.Take())
		})
	}
}

func TestForcedUpgrade(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.change("a", asks("now", "now"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonUserRequested, w.shop("a").Status.LastUpgradeReason)
	expect.Equal(t, "revision", int64(2), w.shop("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "events", []string{"a Normal Upgraded Upgrade Upgraded to revision 2 of chart shop 1.0.0 (UserRequested)"}, w.recorder.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
	// The force-at value is added after the request was handled.
	w.change("a", asks("later", ""))
	w.passes("a", controller.SpecChange)
	w.change("a", asks("later", "later"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a Requested", "apply shops/status a"}, w.calls.Take())
}

func TestForcedUpgradeFails(t *testing.T) {
	w := deployed(t)
	w.engine.Failures = []error{errPlain}
	w.change("a", asks("now", "now"))
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "answers", []string{"now", ""}, []string{w.shop("a").Status.LastHandledRequestedAt, w.shop("a").Status.LastHandledForceAt})
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "requests", []string{"Upgrade a Failed", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "answer", "now", w.shop("a").Status.LastHandledForceAt)

	// A terminal failure is not retried.
	w.engine.Failures = []error{&helm.RenderError{Chart: "shop", Err: errPlain}}
	w.change("a", asks("later", "later"))
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "terminal", true, controller.IsTerminal(err))
	expect.Equal(t, "answer", "later", w.shop("a").Status.LastHandledForceAt)
}

func TestHeldForcedUpgrade(t *testing.T) {
	w := deployed(t)
	w.change("a", waitsFor("b"))
	w.change("a", asks("now", "now"))
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
	expect.Equal(t, "answers", []string{"now", ""}, []string{w.shop("a").Status.LastHandledRequestedAt, w.shop("a").Status.LastHandledForceAt})
	w.change("a", suspended(true))
	w.change("a", waitsFor(""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests while suspended", []string{"apply shops/status a"}, w.calls.Take())
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a Requested", "apply shops/status a"}, w.calls.Take())
}

func TestRequestIsHandledDespiteFailure(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.change("a", asks("now", ""))
	w.engine.ObserveErr = helm.ErrNotSynced
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "lastHandledRequestedAt of a pass that could not begin", "", w.shop("a").Status.LastHandledRequestedAt)
	w.engine.ObserveErr = nil
	w.engine.Failures = []error{errPlain}
	_, err = w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	expect.Equal(t, "answer", "now", w.shop("a").Status.LastHandledRequestedAt)
}

func TestRequestIsHandledWhilePodsStart(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	w.change("a", asks("now", ""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "answer", "now", w.shop("a").Status.LastHandledRequestedAt)
}

func TestRequestRetriesRefusedAttempt(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.Failures = []error{&helm.RenderError{Chart: "shop", Err: errPlain}}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "terminal", true, controller.IsTerminal(err))
	w.clock.Step(time.Second)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while stalled", []string(nil), w.calls.Take())
	w.change("a", asks("now", ""))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a InputsChanged", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
}
