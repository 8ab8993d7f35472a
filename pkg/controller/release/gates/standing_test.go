// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestStanding(t *testing.T) {
	chart := testChart(t, "1.1.0")
	digest := chart.Digest()[:16]
	const inputs = "new-inputs"
	older := func(revision int) *record.Record {
		return &record.Record{Revision: revision, Status: "deployed", Own: true, Inputs: "old-inputs", ChartDigest: "older"}
	}
	newer := func(revision int) *record.Record {
		return &record.Record{Revision: revision, Status: "deployed", Own: true, Inputs: inputs, ChartDigest: digest}
	}
	healthyAt := func(revision int64) func(*sample) {
		return func(app *sample) { app.Status.LastGoodRevision = revision }
	}
	fails := func(of string) func(*sample) {
		return func(app *sample) {
			failedChart := chart.Digest()
			if of != inputs {
				failedChart = "older"
			}
			app.Status.Failures = &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Inputs: of, Chart: failedChart}
			app.Status.History = []releasev1alpha1.HistoryEntry{{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.1.0", Generation: 1}}
		}
	}
	past := func(entries ...releasev1alpha1.HistoryEntry) func(*sample) {
		return func(app *sample) { app.Status.History = append(app.Status.History, entries...) }
	}
	rolledBack := older(3)
	rolledBack.RolledBackTo, rolledBack.Abandoned = 1, inputs
	gotChart := releasev1alpha1.HistoryEntry{Reason: releasev1alpha1.UpgradeReasonChartChanged, ChartVersion: "1.1.0", Revision: 2}
	tests := []struct {
		name     string
		observed helm.Snapshot
		app      []func(*sample)
		want     rollout.Standing
	}{
		{"not installed", helm.Snapshot{}, nil, rollout.Settled},
		{"revision of another client", helm.Snapshot{Record: &record.Record{Revision: 2}, LastGood: older(1)}, nil, rollout.Settled},
		{"installed with the chart", helm.Snapshot{Record: newer(1)}, nil, rollout.Settled},
		{"not upgraded", helm.Snapshot{Record: older(1)}, []func(*sample){healthyAt(1)}, rollout.Due},
		{"upgraded, pods start", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){healthyAt(1)}, rollout.Active},
		{"upgraded, healthy", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){healthyAt(2)}, rollout.Settled},
		{"upgraded, unhealthy", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){
			healthyAt(1), condition(apimeta.ConditionStalled, metav1.ConditionTrue, apimeta.ReasonUnhealthy),
		}, rollout.Failed},
		{"upgraded, then another spec, pods start", helm.Snapshot{Record: newer(3), LastGood: newer(2)}, []func(*sample){
			healthyAt(1), past(gotChart),
		}, rollout.Active},
		{"was healthy with the chart, another spec fails", helm.Snapshot{Record: newer(3), LastGood: newer(2)}, []func(*sample){
			healthyAt(2), fails(inputs), past(gotChart),
		}, rollout.Settled},
		{"healthy with the chart, another spec does not render", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){
			healthyAt(2), fails(inputs),
		}, rollout.Settled},
		{"never healthy", helm.Snapshot{Record: newer(2), LastGood: older(1)}, nil, rollout.Settled},
		{"last revision before the chart was unhealthy", helm.Snapshot{Record: newer(3), LastGood: older(2)}, []func(*sample){healthyAt(1)}, rollout.Settled},
		{"upgraded, suspended", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){healthyAt(1), func(app *sample) { app.suspended = true }}, rollout.Settled},
		{"failed with the chart", helm.Snapshot{Record: newer(2), LastGood: older(1)}, []func(*sample){fails(inputs)}, rollout.Failed},
		{"failed without a revision", helm.Snapshot{Record: older(1)}, []func(*sample){fails(inputs)}, rollout.Failed},
		{"failed with other inputs", helm.Snapshot{Record: older(1)}, []func(*sample){fails("others")}, rollout.Due},
		{"failed because of the object", helm.Snapshot{Record: older(1)}, []func(*sample){
			fails(inputs), func(app *sample) { app.Status.Failures.CausedByObject = true },
		}, rollout.Settled},
		{"pods are refused", helm.Snapshot{
			Record: newer(2), LastGood: older(1), Health: []helm.ObjectHealth{{Health: helm.Health{PodsRefused: "exceeded quota"}}},
		}, []func(*sample){
			healthyAt(1), condition(apimeta.ConditionStalled, metav1.ConditionTrue, apimeta.ReasonUnhealthy),
		}, rollout.Settled},
		{"rolled back", helm.Snapshot{Record: rolledBack, LastGood: older(1)}, []func(*sample){healthyAt(1), fails(inputs)}, rollout.Failed},
		{"failed with the older chart, too", helm.Snapshot{Record: newer(3), LastGood: older(1)}, []func(*sample){
			fails(inputs), past(releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.0.0"}),
		}, rollout.Settled},
		{"succeeded with the older chart", helm.Snapshot{Record: newer(3), LastGood: older(1)}, []func(*sample){
			fails(inputs), past(releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistorySucceeded, ChartVersion: "1.0.0"}),
		}, rollout.Failed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := newSample(test.app...)
			expect.Equal(t, "standing", test.want, standing(1, app.suspended, app.Status, test.observed, chart, inputs))
			if test.name != "failed with other inputs" {
				expect.Equal(t, "standing without inputs", test.want, standing(1, app.suspended, app.Status, test.observed, chart, ""))
			}
		})
	}
}

// TestStandingByStatus: what the status alone says is what the records say, too.
func TestStandingByStatus(t *testing.T) {
	chart := testChart(t, "1.1.0")
	deployed := func(revision int64, version string) func(*sample) {
		return func(app *sample) {
			app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Revision: revision, ChartVersion: version}
		}
	}
	healthyAt := func(revision int64) func(*sample) {
		return func(app *sample) { app.Status.LastGoodRevision = revision }
	}
	fails := func(digest string) func(*sample) {
		return func(app *sample) {
			app.Status.Failures = &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: digest}
		}
	}
	gotChart := func(app *sample) {
		app.Status.History = []releasev1alpha1.HistoryEntry{{Reason: releasev1alpha1.UpgradeReasonChartChanged, ChartVersion: "1.1.0", Revision: 2}}
	}
	unhealthy := condition(apimeta.ConditionStalled, metav1.ConditionTrue, apimeta.ReasonUnhealthy)
	tests := map[string]struct {
		app  []func(*sample)
		want rollout.Standing
	}{
		"not installed":                  {nil, rollout.Settled},
		"failed to install":              {[]func(*sample){fails(chart.Digest())}, rollout.Settled},
		"not upgraded":                   {[]func(*sample){deployed(1, "1.0.0"), healthyAt(1)}, rollout.Due},
		"failed":                         {[]func(*sample){deployed(1, "1.0.0"), healthyAt(1), fails(chart.Digest())}, rollout.Failed},
		"failed with the older chart":    {[]func(*sample){deployed(1, "1.0.0"), healthyAt(1), fails("older")}, rollout.Due},
		"upgraded, unhealthy":            {[]func(*sample){deployed(2, "1.1.0"), healthyAt(1), gotChart, unhealthy}, rollout.Failed},
		"upgraded, healthy":              {[]func(*sample){deployed(2, "1.1.0"), healthyAt(2), gotChart}, rollout.Settled},
		"healthy, another spec fails":    {[]func(*sample){deployed(2, "1.1.0"), healthyAt(2), gotChart, fails(chart.Digest())}, rollout.Settled},
		"installed with it, then failed": {[]func(*sample){deployed(1, "1.1.0"), unhealthy}, rollout.Settled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := newSample(test.app...)
			object := RolloutObject{Generation: 1, Suspended: app.suspended, Status: app.Status}
			expect.Equal(t, "standing", test.want, standingByStatus(object, chart))
		})
	}
}

func TestDeployedGeneration(t *testing.T) {
	deployed := func(is metav1.ConditionStatus, generation int64) func(*sample) {
		return func(app *sample) {
			app.Status.Conditions = []metav1.Condition{{Type: releasev1alpha1.ConditionDeployed, Status: is, ObservedGeneration: generation}}
		}
	}
	past := func(entries ...releasev1alpha1.HistoryEntry) func(*sample) {
		return func(app *sample) { app.Status.History = entries }
	}
	entry := func(action releasev1alpha1.HistoryAction, outcome releasev1alpha1.HistoryOutcome, generation int64) releasev1alpha1.HistoryEntry {
		return releasev1alpha1.HistoryEntry{Action: action, Outcome: outcome, Generation: generation}
	}
	installed := entry(releasev1alpha1.HistoryInstall, releasev1alpha1.HistorySucceeded, 1)
	tests := []struct {
		name string
		app  []func(*sample)
		want int64
	}{
		{"no history", nil, 0},
		{"deployed", []func(*sample){deployed("True", 3), past(installed)}, 3},
		{"next upgrade fails", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistoryFailed, 3), installed),
		}, 1},
		{"next upgrade is rolled back", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRollback, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"repaired while the next upgrade fails", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRepair, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"next upgrade is unhealthy", []func(*sample){
			deployed("False", 2), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistorySucceeded, 2), installed),
		}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "generation", test.want, deployedGeneration(newSample(test.app...).Status))
		})
	}
}
