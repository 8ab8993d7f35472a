// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

// opensAt sets a window of one hour. The tests begin at 03:04 UTC.
func opensAt(schedule, zone string) func(*Shop) {
	return func(shop *Shop) {
		shop.Spec.UpgradeWindow = &releasev1alpha1.UpgradeWindow{
			Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: time.Hour},
		}
	}
}

const (
	outside    = "A change waits for the upgrade window, which opens at 2026-01-02T03:10:00Z (UTC)"
	isHeld     = "True OutsideWindow"
	isNotReady = "False OutsideWindow"
)

// heldConditions are the conditions of a Shop whose upgrade waits for the window.
func heldConditions(more ...string) map[string]string {
	return releasetest.Conditions(append([]string{
		"UpgradeHeld", isHeld, "Ready", isNotReady, "Reconciling", isHeld, "Deployed", "True InstallSucceeded",
	}, more...)...)
}

func TestUpgradeWaitsForWindow(t *testing.T) {
	changes := map[string]func(w *world){
		"spec":  func(w *world) { w.change("a", says("other")) },
		"size":  func(w *world) { w.change("a", func(shop *Shop) { shop.Spec.Size = 2 }) },
		"chart": func(w *world) { w.start(testChart(t, "1.1.0")) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, opensAt("10 3 * * *", "UTC"))
			change(w)
			result := w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", heldConditions(), w.conditions("a"))
			expect.Equal(t, "message of UpgradeHeld", outside, w.message("a", releasev1alpha1.ConditionUpgradeHeld))
			expect.Equal(t, "events", []string{"a Normal Held Hold OutsideWindow: " + outside}, w.recorder.Take())
			opens := time.Date(2026, 1, 2, 3, 10, 0, 0, time.UTC)
			expect.Equal(t, "requeue after", opens.Sub(w.clock.Now()), result.RequeueAfter)

			// Neither another pass nor a restart changes anything.
			w.start(w.chart)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())

			w.clock.SetTime(opens)
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "requests when it opens", []string{"patch shops a", "Upgrade a InputsChanged", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
		})
	}
}

func TestActionsThatDoNotWaitForWindow(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		calls  []string
	}{
		{"rolled back by hand", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "deployed")) }, []string{
			"apply shops/status a", "Upgrade a ReleaseChanged", "apply shops/status a",
		}},
		{"uninstalled by hand", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Uninstall) }, []string{
			"apply shops/status a", "Install a NotInstalled", "apply shops/status a",
		}},
		{"forced with a changed spec", func(w *world) {
			w.change("a", says("other"))
			w.passes("a", controller.SpecChange)
			w.change("a", asks("now", "now"))
		}, []string{"Upgrade a InputsChanged", "apply shops/status a"}},
		{"interrupted", func(w *world) {
			inputs, err := w.engine.Desired.InputDigest()
			expect.NoError(t, err)
			w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
				r.Record = &record.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: inputs, Changed: began}
			})
		}, []string{"Upgrade a Interrupted", "apply shops/status a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, opensAt("10 3 * * *", "UTC"))
			test.change(w)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.Take())
			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "UpgradeHeld", "", w.conditions("a")["UpgradeHeld"])
		})
	}
}

func TestChangesThatWaitForWindow(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		calls  []string
		want   map[string]string
	}{
		{
			"drift and a changed spec", func(w *world) {
				w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
				w.change("a", says("other"))
			},
			[]string{"Repair a Drift", "apply shops/status a", "apply shops/status a"},
			heldConditions(),
		},
		{
			"rolled back by hand, and a changed spec", func(w *world) {
				w.change("a", says("other"))
				w.passes("a", controller.SpecChange)
				w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "deployed"))
			}, nil, heldConditions(),
		},
		{
			"interrupted with other inputs", func(w *world) {
				w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
					r.Record = &record.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: "older", Changed: began}
				})
			}, []string{"apply shops/status a"}, heldConditions(),
		},
		{
			"retry of a failed upgrade", func(w *world) {
				w.clock.SetTime(time.Date(2026, 1, 2, 3, 10, 0, 0, time.UTC))
				w.change("a", says("other"))
				w.engine.Failures = []error{errPlain}
				_, err := w.pass("a", controller.SpecChange)
				expect.Equal(t, "failed", true, err != nil)
				w.clock.SetTime(time.Date(2026, 1, 2, 4, 15, 0, 0, time.UTC))
			}, []string{"apply shops/status a"}, heldConditions("Failed", "True UpgradeFailed", "Deployed", "False UpgradeFailed"),
		},
		{
			"suspended, too", func(w *world) { w.change("a", says("other")); w.change("a", suspended(true)) },
			[]string{"apply shops/status a"},
			heldConditions(
				"Suspended", "True SuspendedBySpec", "Ready", "False SuspendedBySpec", "Reconciling", "True SuspendedBySpec"),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, opensAt("10 3 * * *", "UTC"))
			test.change(w)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", test.calls, w.calls.Take())
			expect.Equal(t, "conditions", test.want, w.conditions("a"))
			expect.Contains(t, "message of Ready", w.message("a", apimeta.ConditionReady), "A change waits for the upgrade window")
		})
	}
}

func TestRevertedChangeEndsHold(t *testing.T) {
	w := deployed(t, opensAt("10 3 * * *", "UTC"))
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	w.change("a", says("hello"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}

func TestInvalidWindowStalls(t *testing.T) {
	tests := map[string]struct {
		window  func(*Shop)
		message string
	}{
		"schedule":  {opensAt("61 3 * * *", "UTC"), `upgradeWindow: schedule "61 3 * * *" cannot be understood`},
		"time zone": {opensAt("10 3 * * *", "Europe/Atlantis"), `upgradeWindow: time zone "Europe/Atlantis" is not one of the IANA database`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(newShop("a", test.window))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"patch shops a", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("UpgradeHeld", "True InvalidSchedule", "Deployed", "False InvalidSchedule",
				"Ready", "False InvalidSchedule", "Stalled", "True InvalidSchedule"), w.conditions("a"))
			expect.Contains(t, "message of Ready", w.message("a", apimeta.ConditionReady), test.message)
			w.change("a", opensAt("10 3 * * *", "UTC"))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))

			w.change("a", test.window)
			w.change("a", asks("now", "now"))
			w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("UpgradeHeld", "True InvalidSchedule", "Deployed", "True InstallSucceeded",
				"Ready", "False InvalidSchedule", "Stalled", "True InvalidSchedule"), w.conditions("a"))
		})
	}
}
