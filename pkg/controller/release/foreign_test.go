// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDriftIsCorrected(t *testing.T) {
	tests := []struct {
		name    string
		mutate  func(*releasetest.Release)
		message string
		why     controller.Reason
		reason  releasev1alpha1.UpgradeReason
	}{
		{"edited", releasetest.Edit("ConfigMap"), "ConfigMap a (changed)", controller.Drift, releasev1alpha1.UpgradeReasonDriftDetected},
		{"deleted", releasetest.Remove("Deployment"), "Deployment a (missing)", controller.Drift, releasev1alpha1.UpgradeReasonDriftDetected},
		{"recreated", releasetest.Replace("Secret"), "Secret a (replaced)", controller.Drift, releasev1alpha1.UpgradeReasonDriftDetected},
		{
			"two objects", func(r *releasetest.Release) { releasetest.Edit("ConfigMap")(r); releasetest.Remove("Service")(r) },
			"ConfigMap a (changed), Service a (missing)", controller.Drift, releasev1alpha1.UpgradeReasonDriftDetected,
		},
		{"without an event", releasetest.Edit("Service"), "Service a (changed)", controller.PeriodicResync, releasev1alpha1.UpgradeReasonPeriodicResync},
		{"found after a restart", releasetest.Edit("Service"), "Service a (changed)", controller.SpecChange, releasev1alpha1.UpgradeReasonDriftDetected},
		{
			"with the periodic resync", releasetest.Edit("Service"), "Service a (changed)", controller.PeriodicResync | controller.HealthChange,
			releasev1alpha1.UpgradeReasonDriftDetected,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			before := w.shop("a").Status
			w.engine.Mutate(keyOf("a"), test.mutate)
			w.wrote = func() {
				w.wrote = nil
				expect.Equal(t, "conditions of the report", releasetest.Conditions("Drifted", "True ObjectsChanged",
					"Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
				expect.Equal(t, "what drifted", test.message, w.message("a", releasev1alpha1.ConditionDrifted))
			}
			w.passes("a", test.why)
			expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			expect.Equal(t, "events", []string{"a Normal DriftCorrected Repair Corrected " + test.message}, w.recorder.Take())
			after := w.shop("a").Status
			expect.Equal(t, "revision", before.DeployedRelease, after.DeployedRelease)
			expect.Equal(t, "lastUpgradeReason", test.reason, after.LastUpgradeReason)
			expect.Equal(t, "lastUpgradeAt", w.clock.Now(), after.LastUpgradeAt.UTC())
			w.passes("a", controller.Drift)
			expect.Equal(t, "requests of the next pass", []string(nil), w.calls.Take())
		})
	}
}

func TestReleaseChangedByAnotherClient(t *testing.T) {
	tests := []struct {
		name    string
		mutate  func(*releasetest.Release)
		why     controller.Reason
		action  string
		message string
		after   int64
		reason  releasev1alpha1.UpgradeReason
		event   string
	}{
		{
			"rolled back", releasetest.RewriteRecord(2, "deployed"), controller.Drift, "Upgrade a ReleaseChanged",
			"Revision 2 (deployed) of the release was not made by this operator", 3, releasev1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart shop 1.0.0 (DriftDetected)",
		},
		{
			"rolled back without an event", releasetest.RewriteRecord(2, "deployed"), controller.PeriodicResync, "Upgrade a ReleaseChanged",
			"Revision 2 (deployed) of the release was not made by this operator", 3, releasev1alpha1.UpgradeReasonPeriodicResync,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart shop 1.0.0 (PeriodicResync)",
		},
		{
			"a failed upgrade", releasetest.RewriteRecord(2, "failed"), controller.Drift, "Upgrade a ReleaseChanged",
			"Revision 2 (failed) of the release was not made by this operator", 3, releasev1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 3 of chart shop 1.0.0 (DriftDetected)",
		},
		{
			"uninstalled, history kept", releasetest.RewriteRecord(1, "uninstalled"), controller.Drift, "Install a ReleaseChanged",
			"Revision 1 (uninstalled) of the release was not made by this operator", 2, releasev1alpha1.UpgradeReasonDriftDetected,
			"Normal Upgraded Upgrade Upgraded to revision 2 of chart shop 1.0.0 (DriftDetected)",
		},
		{
			"uninstalled", releasetest.Uninstall, controller.Drift, "Install a NotInstalled",
			"Release a was uninstalled", 1, releasev1alpha1.UpgradeReasonDriftDetected,
			"Normal DriftCorrected Repair Corrected Release a was uninstalled",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			w.engine.Mutate(keyOf("a"), test.mutate)
			w.engine.Executing = func() {
				expect.Equal(t, "Drifted when Execute begins", "True ReleaseChanged", w.conditions("a")["Drifted"])
				expect.Equal(t, "what drifted", test.message, w.message("a", releasev1alpha1.ConditionDrifted))
			}
			w.passes("a", test.why)
			expect.Equal(t, "requests", []string{"apply shops/status a", test.action, "apply shops/status a"}, w.calls.Take())
			expect.Equal(t, "lastUpgradeReason", test.reason, w.shop("a").Status.LastUpgradeReason)
			expect.Equal(t, "revision", test.after, w.shop("a").Status.DeployedRelease.Revision)
			expect.Equal(t, "events", []string{"a " + test.event}, w.recorder.Take())
			if drifted, ok := w.conditions("a")["Drifted"]; ok {
				t.Errorf("Drifted is still %s", drifted)
			}
		})
	}
}

func TestInterruptedAttemptIsRepeated(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
		inputs, err := helm.Release{
			Namespace: namespace, Name: "a", Chart: testChart(t, "1.0.0"),
			Values: map[string]any{"size": int64(1), "message": "other"}, Owner: w.engine.Desired.Owner,
		}.InputDigest()
		expect.NoError(t, err)
		r.Record = &record.Record{Revision: 2, Status: "pending-upgrade", Own: true, Inputs: inputs, Changed: began}
	})
	w.start(testChart(t, "1.0.0"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch shops a", "Upgrade a Interrupted", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "revision", int64(2), w.shop("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonRetryAfterFailure, w.shop("a").Status.LastUpgradeReason)
}

func TestBusyReleaseIsRetried(t *testing.T) {
	busy := &helm.BusyError{Release: "ns/a", Status: "being changed"}
	tests := []struct {
		name     string
		world    func(t *testing.T) *world
		deployed string
		next     time.Duration
	}{
		{"upgraded by another client", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "pending-upgrade"))
			return w
		}, "True InstallSucceeded", time.Minute},
		{"installed by another client at the same time", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newShop("a"))
			w.engine.Failures = []error{busy}
			return w
		}, "False ReleaseBusy", release.BusyRetry},
		{"upgraded by another client at the same time", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			w.engine.Failures = []error{fmt.Errorf("upgrade: %w", busy)}
			return w
		}, "True InstallSucceeded", release.BusyRetry},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			generation := w.shop("a").Status.ObservedGeneration
			result := w.passes("a", controller.Drift)
			expect.Equal(t, "requeue after", test.next, result.RequeueAfter)
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "False ReleaseBusy", "Reconciling", "True ReleaseBusy",
				"Deployed", test.deployed), w.conditions("a"))
			expect.Equal(t, "events", []string{"a Warning ReleaseBusy Reconcile release ns/a is being changed by another client: wait until its operation ends"}, w.recorder.Take())
			expect.Equal(t, "observedGeneration", generation, w.shop("a").Status.ObservedGeneration)
			if r := w.engine.Release(keyOf("a")); r.Record != nil && !r.Record.Own {
				r.Record.Status = "deployed"
			}
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
		})
	}
}

// TestPartialRepair: repaired objects stay watched while an object of another owner
// blocks the rest of the repair.
func TestPartialRepair(t *testing.T) {
	w := deployed(t)
	w.engine.Taken = []string{"Secret"}
	w.engine.Mutate(keyOf("a"), releasetest.Remove("ConfigMap"))
	w.engine.Mutate(keyOf("a"), releasetest.Replace("Secret"))
	drifted := func() string { return w.message("a", releasev1alpha1.ConditionDrifted) }
	_, err := w.pass("a", controller.Drift)
	if !controller.IsTerminal(err) {
		t.Errorf("error is %v, want a terminal one", err)
	}
	_, err = w.pass("a", controller.Drift)
	if !controller.IsTerminal(err) {
		t.Errorf("error is %v, want a terminal one", err)
	}
	expect.Equal(t, "drifted after the repair", "Secret a (replaced)", drifted())
	w.calls.Take()
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests while nothing else changes", []string(nil), w.calls.Take())
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	_, err = w.pass("a", controller.Drift)
	if !controller.IsTerminal(err) {
		t.Errorf("error is %v, want a terminal one", err)
	}
	expect.Equal(t, "the ConfigMap", w.engine.Release(keyOf("a")).Applied["ConfigMap"], w.engine.Release(keyOf("a")).Live["ConfigMap"])
}

func TestDriftStatusWriteFailure(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("Secret"))
	w.statusErr = errPlain
	_, err := w.pass("a", controller.Drift)
	if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "events", []string(nil), w.recorder.Take())
	w.statusErr = nil
	w.passes("a", controller.Drift|controller.Retry)
	expect.Equal(t, "requests of the retry", []string(nil), w.calls.Take())
}

func TestTransitionTimesAreKept(t *testing.T) {
	w := deployed(t)
	before := meta.FindStatusCondition(w.shop("a").Status.Conditions, apimeta.ConditionReady).LastTransitionTime
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "time of a condition that stayed True", before,
		meta.FindStatusCondition(w.shop("a").Status.Conditions, apimeta.ConditionReady).LastTransitionTime)
	w.change("a", fromSecret)
	w.clock.Step(time.Minute)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "time of a condition that changed", metav1.NewTime(w.clock.Now()).UTC(),
		meta.FindStatusCondition(w.shop("a").Status.Conditions, apimeta.ConditionReady).LastTransitionTime.UTC())
}
