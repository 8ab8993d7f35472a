// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// licenses is a license server that gives one answer.
type licenses struct {
	answer license.Answer
	asked  []license.Subject
	anew   bool
}

// Ask implements Licenses.
func (l *licenses) Ask(_ context.Context, subject license.Subject, anew bool) license.Answer {
	l.asked = append(l.asked, subject)
	l.anew = anew
	return l.answer
}

var (
	granted     = license.Answer{Verdict: license.Granted, Message: "yes"}
	denied      = license.Answer{Verdict: license.Denied, Message: "no"}
	unavailable = license.Answer{Verdict: license.Unavailable, Message: "silence"}
)

// licensed returns a world with a license server and the deployed Shop "a".
func licensed(t *testing.T, change ...func(*Shop)) (*world, *licenses) {
	t.Helper()
	w, server := newWorld(t), &licenses{answer: granted}
	w.licenses = server
	w.start(testChart(t, "1.0.0"))
	w.create(newShop("a", change...))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions", releasetest.Conditions("Licensed", "True LicenseGranted", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "asked", []license.Subject{{Namespace: namespace, Name: "a", Image: "image"}}, server.asked)
	w.recorder.Take()
	server.asked = nil
	return w, server
}

func TestInstallWaitsForLicense(t *testing.T) {
	tests := map[string]struct {
		answer license.Answer
		reason string
	}{
		"denied":      {denied, releasev1alpha1.ReasonLicenseDenied},
		"unavailable": {unavailable, releasev1alpha1.ReasonLicenseUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, server := newWorld(t), &licenses{answer: test.answer}
			w.licenses = server
			w.start(testChart(t, "1.0.0"))
			w.create(newShop("a"))
			result := w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"patch shops a", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Licensed", "False "+test.reason, "Deployed", "False "+test.reason,
				"Ready", "False "+test.reason, "Reconciling", "True "+test.reason), w.conditions("a"))
			expect.Equal(t, "events", []string{"a Warning Held Hold " + test.reason + ": " + test.answer.Message}, w.recorder.Take())
			if result.RequeueAfter < 108*time.Second || result.RequeueAfter > 132*time.Second {
				t.Errorf("requeued after %v", result.RequeueAfter)
			}
			server.answer = granted
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "requests", []string{"Install a NotInstalled", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "Licensed", "True LicenseGranted", w.conditions("a")["Licensed"])
		})
	}
}

func TestDeniedLicenseHoldsUpgradeOnly(t *testing.T) {
	w, server := licensed(t)
	server.answer = denied
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "requests for drift", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "questions about drift", 0, len(server.asked))

	w.change("a", says("other"))
	w.engine.Mutate(keyOf("a"), releasetest.Edit("Service"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	held := releasetest.Conditions("Licensed", "False LicenseDenied", "Deployed", "True InstallSucceeded", "Ready", "False LicenseDenied", "Reconciling", "True LicenseDenied")
	expect.Equal(t, "conditions", held, w.conditions("a"))

	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests after a restart", []string(nil), w.calls.Take())
	expect.Equal(t, "conditions", held, w.conditions("a"))

	// The change is reverted.
	w.change("a", says("hello"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}

func TestForcedUpgradeNeedsLicense(t *testing.T) {
	w, server := licensed(t)
	server.answer = denied
	w.change("a", asks("now", "now"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "asked anew", true, server.anew)
	expect.Equal(t, "Ready", "False LicenseDenied", w.conditions("a")["Ready"])
	server.answer = granted
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests", []string{"Upgrade a Requested", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "asked anew", false, server.anew)
}

func TestLicenseAndWindow(t *testing.T) {
	w, server := licensed(t, opensAt("15 4 * * *", "UTC"))
	server.answer = denied
	w.change("a", says("other"))
	result := w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions", heldConditions("Licensed", "False LicenseDenied"), w.conditions("a"))
	expect.Equal(t, "message of Ready", "A change waits for the upgrade window, which opens at 2026-01-02T04:15:00Z (UTC); no", w.message("a", apimeta.ConditionReady))
	if result.RequeueAfter < resync*9/10 {
		t.Errorf("requeued after %v", result.RequeueAfter)
	}
}

// TestLicenseAndBlocker: the status reports both.
func TestLicenseAndBlocker(t *testing.T) {
	w, server := licensed(t)
	server.answer = denied
	w.change("a", waitsFor("b"))
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions", releasetest.Conditions("Licensed", "False LicenseDenied", "Deployed", "True InstallSucceeded",
		"Ready", "False Waiting", "Reconciling", "True Waiting"), w.conditions("a"))
	expect.Equal(t, "message of Ready", "Waiting for Shop b; no", w.message("a", apimeta.ConditionReady))
}

func TestLicenseOfDelayedStatus(t *testing.T) {
	w, server := newWorld(t), &licenses{answer: denied}
	w.licenses = server
	w.start(testChart(t, "1.0.0"))
	w.create(newShop("a"))
	w.passes("a", controller.SpecChange)
	server.answer = granted
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.engine.Add(keyOf("a"))
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests", []string{"Install a NotInstalled"}, w.calls.Take())
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "conditions", releasetest.Conditions("Licensed", "True LicenseGranted", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}
