// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

func TestRolloutStanding(t *testing.T) {
	chart := testChart(t, "1.1.0")
	digest := chart.Digest()[:16]
	const inputs = "new-inputs"
	older := func(revision int) *helm.Record {
		return &helm.Record{Revision: revision, Status: "deployed", Own: true, Inputs: "old-inputs", ChartDigest: "older"}
	}
	newer := func(revision int) *helm.Record {
		return &helm.Record{Revision: revision, Status: "deployed", Own: true, Inputs: inputs, ChartDigest: digest}
	}
	healthyAt := func(revision int64) func(*v1alpha1.DemoApp) {
		return func(app *v1alpha1.DemoApp) { app.Status.LastGoodRevision = revision }
	}
	fails := func(of string) func(*v1alpha1.DemoApp) {
		return func(app *v1alpha1.DemoApp) {
			app.Status.Failures = &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Inputs: of}
			app.Status.History = []releasev1alpha1.HistoryEntry{{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.1.0", Generation: 1}}
		}
	}
	past := func(entries ...releasev1alpha1.HistoryEntry) func(*v1alpha1.DemoApp) {
		return func(app *v1alpha1.DemoApp) { app.Status.History = append(app.Status.History, entries...) }
	}
	rolledBack := older(3)
	rolledBack.RolledBackTo, rolledBack.Abandoned = 1, inputs
	gotChart := releasev1alpha1.HistoryEntry{Reason: releasev1alpha1.UpgradeReasonChartChanged, ChartVersion: "1.1.0", Revision: 2}
	tests := []struct {
		name     string
		observed helm.Snapshot
		app      []func(*v1alpha1.DemoApp)
		want     rollout.Standing
	}{
		{"not installed", helm.Snapshot{}, nil, rollout.Settled},
		{"somebody else's revision", helm.Snapshot{Record: &helm.Record{Revision: 2}, LastGood: older(1)}, nil, rollout.Settled},
		{"installed with it", helm.Snapshot{Record: newer(1)}, nil, rollout.Settled},
		{"does not have it", helm.Snapshot{Record: older(1)}, []func(*v1alpha1.DemoApp){healthyAt(1)}, rollout.Due},
		{"has it, and pods start", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){healthyAt(1)}, rollout.Active},
		{"has it, and is healthy", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){healthyAt(2)}, rollout.Settled},
		{"has it, and gave up", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){
			healthyAt(1), condition(apimeta.ConditionStalled, metav1.ConditionTrue, apimeta.ReasonUnhealthy),
		}, rollout.Failed},
		{"has it, and another spec since, and pods start", helm.Snapshot{Record: newer(3), LastGood: newer(2)}, []func(*v1alpha1.DemoApp){
			healthyAt(1), past(gotChart),
		}, rollout.Active},
		{"was healthy with it, and another spec fails", helm.Snapshot{Record: newer(3), LastGood: newer(2)}, []func(*v1alpha1.DemoApp){
			healthyAt(2), fails(inputs), past(gotChart),
		}, rollout.Settled},
		{"is healthy with it, and another spec does not render", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){
			healthyAt(2), fails(inputs),
		}, rollout.Settled},
		{"never was healthy", helm.Snapshot{Record: newer(2), LastGood: older(1)}, nil, rollout.Settled},
		{"was not healthy lately", helm.Snapshot{Record: newer(3), LastGood: older(2)}, []func(*v1alpha1.DemoApp){healthyAt(1)}, rollout.Settled},
		{"has it, and is suspended", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){healthyAt(1), suspended(true)}, rollout.Settled},
		{"failed with it", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*v1alpha1.DemoApp){fails(inputs)}, rollout.Failed},
		{"failed without a revision", helm.Snapshot{Record: older(1)}, []func(*v1alpha1.DemoApp){fails(inputs)}, rollout.Failed},
		{"failed with what is wanted no more", helm.Snapshot{Record: older(1)}, []func(*v1alpha1.DemoApp){fails("others")}, rollout.Due},
		{"rolled back", helm.Snapshot{Record: rolledBack, LastGood: older(1)}, []func(*v1alpha1.DemoApp){healthyAt(1), fails(inputs)}, rollout.Failed},
		{"failed with the older one, too", helm.Snapshot{Record: newer(3), LastGood: older(1)}, []func(*v1alpha1.DemoApp){
			fails(inputs), past(releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.0.0"}),
		}, rollout.Settled},
		{"worked with the older one", helm.Snapshot{Record: newer(3), LastGood: older(1)}, []func(*v1alpha1.DemoApp){
			fails(inputs), past(releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistorySucceeded, ChartVersion: "1.0.0"}),
		}, rollout.Failed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := newApp("a", test.app...)
			app.Generation = 1
			equal(t, "standing", test.want, rolloutStanding(app, test.observed, chart, inputs))
			if test.name != "failed with what is wanted no more" {
				equal(t, "standing as far as it is stored", test.want, rolloutStanding(app, test.observed, chart, ""))
			}
		})
	}
}

func TestDeployedGeneration(t *testing.T) {
	deployed := func(is metav1.ConditionStatus, generation int64) func(*v1alpha1.DemoApp) {
		return func(app *v1alpha1.DemoApp) {
			app.Status.Conditions = []metav1.Condition{{Type: releasev1alpha1.ConditionDeployed, Status: is, ObservedGeneration: generation}}
		}
	}
	past := func(entries ...releasev1alpha1.HistoryEntry) func(*v1alpha1.DemoApp) {
		return func(app *v1alpha1.DemoApp) { app.Status.History = entries }
	}
	entry := func(action releasev1alpha1.HistoryAction, outcome releasev1alpha1.HistoryOutcome, generation int64) releasev1alpha1.HistoryEntry {
		return releasev1alpha1.HistoryEntry{Action: action, Outcome: outcome, Generation: generation}
	}
	installed := entry(releasev1alpha1.HistoryInstall, releasev1alpha1.HistorySucceeded, 1)
	tests := []struct {
		name string
		app  []func(*v1alpha1.DemoApp)
		want int64
	}{
		{"nothing is known", nil, 0},
		{"deployed", []func(*v1alpha1.DemoApp){deployed("True", 3), past(installed)}, 3},
		{"the next one fails", []func(*v1alpha1.DemoApp){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistoryFailed, 3), installed),
		}, 1},
		{"the next one is rolled back", []func(*v1alpha1.DemoApp){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRollback, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"repaired while the next one fails", []func(*v1alpha1.DemoApp){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRepair, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"the next one is unhealthy", []func(*v1alpha1.DemoApp){
			deployed("False", 2), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistorySucceeded, 2), installed),
		}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "generation", test.want, deployedGeneration(newApp("a", test.app...).Status))
		})
	}
}
