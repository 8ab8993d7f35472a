// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/test/expect"
)

func TestEvents(t *testing.T) {
	at := func(seconds int) *metav1.Time {
		t := metav1.NewTime(began.Add(time.Duration(seconds) * time.Second))
		return &t
	}
	status := func(change ...func(*sample)) releasev1alpha1.ReleaseStatus { return newSample(change...).Status }
	revision := func(n int64, seconds int) func(*sample) {
		return func(app *sample) {
			app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: n, Chart: "demo-app", ChartVersion: "1.0.0"}
			app.Status.LastUpgradeReason, app.Status.LastUpgradeAt = releasev1alpha1.UpgradeReasonDriftDetected, at(seconds)
			app.Status.History = []releasev1alpha1.HistoryEntry{{
				Time: *at(seconds), Action: releasev1alpha1.HistoryRepair, Outcome: releasev1alpha1.HistorySucceeded, Revision: n,
			}}
		}
	}
	again := func(app *sample) { app.Status.History[0].Count = 2 }
	failed := func(app *sample) {
		app.Status.History = append([]releasev1alpha1.HistoryEntry{{Action: releasev1alpha1.HistoryRepair, Outcome: releasev1alpha1.HistoryFailed}}, app.Status.History...)
	}
	accepted := func(app *sample) {
		app.Status.Inventory = []releasev1alpha1.InventoryEntry{{Kind: "Secret", Name: "a", Digest: "new"}}
	}
	forgotten := func(app *sample) { app.Status.History = nil }
	drifted := condition(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, releasev1alpha1.ReasonObjectsChanged)
	adjusted := condition(releasev1alpha1.ConditionAdjusted, metav1.ConditionTrue, releasev1alpha1.ReasonManifestAdjusted)
	ready := func(is metav1.ConditionStatus, reason string) func(*sample) {
		return condition(apimeta.ConditionReady, is, reason)
	}
	late := func(revision int64) func(*sample) {
		return func(app *sample) {
			condition(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, releasev1alpha1.ReasonHealthTimeout)(app)
			failure := releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, Revision: revision}
			app.Status.History = append([]releasev1alpha1.HistoryEntry{failure}, app.Status.History...)
		}
	}
	remedied := func(app *sample) { app.Status.LastUpgradeReason = releasev1alpha1.UpgradeReasonRemediation }
	takenOver := func(app *sample) {
		app.Status.LastUpgradeReason, app.Status.DeployedRelease.Name = releasev1alpha1.UpgradeReasonTakenOver, "web"
	}
	next := func(app *sample) { app.Generation++ }
	const no = metav1.ConditionFalse
	tests := []struct {
		name          string
		before, after releasev1alpha1.ReleaseStatus
		want          []event.Event
	}{
		{"nothing yet", status(), status(), nil},
		{
			"installed", status(), status(revision(1, 0)),
			[]event.Event{event.Normal("Installed", "Install", "Installed revision 1 of chart demo-app 1.0.0 (DriftDetected)")},
		},
		{
			"taken over", status(), status(revision(3, 0), takenOver),
			[]event.Event{event.Normal("TookOver", "TakeOver", "Took over release web with revision 3 of chart demo-app 1.0.0")},
		},
		{
			"upgraded", status(revision(1, 0)), status(revision(2, 1)),
			[]event.Event{event.Normal("Upgraded", "Upgrade", "Upgraded to revision 2 of chart demo-app 1.0.0 (DriftDetected)")},
		},
		{
			"installed again", status(revision(4, 0)), status(revision(1, 1)),
			[]event.Event{event.Normal("Installed", "Install", "Installed revision 1 of chart demo-app 1.0.0 (DriftDetected)")},
		},
		{
			"repaired", status(revision(1, 0), drifted), status(revision(1, 1)),
			[]event.Event{event.Normal("DriftCorrected", "Repair", "Corrected ObjectsChanged message")},
		},
		{
			"repaired within the same second", status(revision(1, 0), drifted), status(revision(1, 0), again),
			[]event.Event{event.Normal("DriftCorrected", "Repair", "Corrected ObjectsChanged message")},
		},
		{
			"adjusted", status(revision(1, 0)), status(revision(1, 0), adjusted),
			[]event.Event{event.Warning("ManifestAdjusted", "Reconcile", "ManifestAdjusted message")},
		},
		{"still adjusted", status(revision(1, 0), adjusted), status(revision(1, 0), adjusted), nil},
		{"drift is observed", status(revision(1, 0)), status(revision(1, 0), drifted), nil},
		{"drift is still observed", status(revision(1, 0), drifted), status(revision(1, 0), drifted), nil},
		{
			"applied again", status(revision(1, 0)), status(revision(1, 1)),
			[]event.Event{event.Normal("DriftCorrected", "Repair", "Applied the objects again")},
		},
		{
			"applied again within the same second", status(revision(1, 0)), status(revision(1, 0), again),
			[]event.Event{event.Normal("DriftCorrected", "Repair", "Applied the objects again")},
		},
		{
			"repaired at the second attempt", status(revision(1, 0), failed, drifted), status(revision(1, 1)),
			[]event.Event{event.Normal("DriftCorrected", "Repair", "Corrected ObjectsChanged message")},
		},
		{"a repair fails", status(revision(1, 0), drifted), status(revision(1, 0), failed, drifted), nil},
		{"failures push the last success out of the history", status(revision(1, 0)), status(revision(1, 0), forgotten, failed), nil},
		{"drift ends without a repair", status(revision(1, 0), drifted), status(revision(1, 0)), nil},
		{"baseline of an object changes", status(revision(1, 0)), status(revision(1, 0), accepted), nil},
		{"unchanged", status(revision(1, 0), ready("True", "Healthy")), status(revision(1, 0), ready("True", "Healthy")), nil},
		{"becomes healthy", status(ready(no, "Progressing")), status(ready("True", "Healthy")), nil},
		{"pods start", status(ready("True", "Healthy")), status(ready(no, "Progressing")), nil},
		{"waits", status(), status(ready(no, "Waiting")), []event.Event{event.Normal("Waiting", "Reconcile", "Waiting message")}},
		{"is held", status(), status(ready(no, "OutsideWindow")), []event.Event{event.Normal("Held", "Hold", "OutsideWindow: OutsideWindow message")}},
		{"is still held", status(ready(no, "OutsideWindow")), status(ready(no, "OutsideWindow")), nil},
		{
			"is held by something else", status(ready(no, "OutsideWindow")), status(ready(no, "LicenseDenied")),
			[]event.Event{event.Warning("Held", "Hold", "LicenseDenied: LicenseDenied message")},
		},
		{
			"not healthy in time, retry pending", status(revision(2, 0)), status(revision(2, 0), late(2)),
			[]event.Event{event.Warning("HealthTimeout", "Reconcile", "Revision 2 did not become healthy in time")},
		},
		{
			"not healthy in time, rolled back", status(revision(2, 0)), status(revision(3, 1), late(2), remedied, ready(no, "RolledBack")),
			[]event.Event{event.Warning("RolledBack", "Rollback", "Rolled back with revision 3 of chart demo-app 1.0.0 (Remediation). RolledBack message")},
		},
		{"not healthy in time before", status(revision(2, 0), late(2)), status(revision(2, 0), late(2)), nil},
		{
			"not healthy in time before, retried", status(revision(2, 0), late(2)), status(revision(3, 1), late(2)),
			[]event.Event{event.Normal("Upgraded", "Upgrade", "Upgraded to revision 3 of chart demo-app 1.0.0 (DriftDetected)")},
		},
		{"another revision fails", status(revision(2, 0)), status(revision(2, 0), late(3)), nil},
		{
			"not healthy in time, left", status(revision(2, 0)), status(revision(2, 0), late(2), ready(no, "HealthTimeout")),
			[]event.Event{event.Warning("HealthTimeout", "Reconcile", "HealthTimeout message")},
		},
		{"still waits", status(ready(no, "Waiting")), status(ready(no, "Waiting")), nil},
		{"fails", status(ready("True", "Healthy")), status(ready(no, "UpgradeFailed")), []event.Event{event.Warning("UpgradeFailed", "Reconcile", "UpgradeFailed message")}},
		{"fails again", status(ready(no, "UpgradeFailed")), status(ready(no, "UpgradeFailed")), nil},
		{
			"another spec fails with the same reason", status(ready(no, "UpgradeFailed")), status(next, ready(no, "UpgradeFailed")),
			[]event.Event{event.Warning("UpgradeFailed", "Reconcile", "UpgradeFailed message")},
		},
		{
			"fails with another reason", status(ready(no, "UpgradeFailed")), status(ready(no, "Refused")),
			[]event.Event{event.Warning("Refused", "Reconcile", "Refused message")},
		},
		{
			"upgraded and unhealthy", status(revision(1, 0)), status(revision(2, 1), ready(no, "Unhealthy")),
			[]event.Event{
				event.Normal("Upgraded", "Upgrade", "Upgraded to revision 2 of chart demo-app 1.0.0 (DriftDetected)"),
				event.Warning("Unhealthy", "Reconcile", "Unhealthy message"),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "events", test.want, eventsOf(test.before, test.after, releasev1alpha1.ReleasePolicy{}, "Waiting"))
		})
	}
}
