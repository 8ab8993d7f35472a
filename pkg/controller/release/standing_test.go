// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestStanding(t *testing.T) {
	chart := chartVersion(t, "1.1.0")
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
			c := candidate{generation: 1, suspended: app.suspended, status: app.Status, observed: test.observed, chart: chart, inputs: inputs}
			expect.Equal(t, "standing", test.want, standing(c))
			if test.name != "failed with other inputs" {
				c.inputs = ""
				expect.Equal(t, "standing without inputs", test.want, standing(c))
			}
		})
	}
}

// TestStandingAfterRestart: a new process does not know whether an object failed with these inputs.
// An object that halted the rollout still does.
func TestStandingAfterRestart(t *testing.T) {
	older, newer := chartVersion(t, "1.0.0"), chartVersion(t, "1.1.0")
	for name, test := range map[string]struct {
		failures releasev1alpha1.FailureCounts
		history  []releasev1alpha1.HistoryEntry
		want     rollout.Standing
	}{
		"failed with the chart":        {releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: newer.Digest()}, nil, rollout.Failed},
		"failed with another chart":    {releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: older.Digest()}, nil, rollout.Due},
		"failed with another spec":     {releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 7, Chart: newer.Digest()}, nil, rollout.Due},
		"recovered":                    {releasev1alpha1.FailureCounts{}, nil, rollout.Due},
		"failed because of the object": {releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: newer.Digest(), CausedByObject: true}, nil, rollout.Due},
		"failed before the chart, too": {
			releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: newer.Digest()},
			[]releasev1alpha1.HistoryEntry{{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.0.0", Generation: 1}},
			rollout.Due,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.failures.Inputs = "of an earlier process"
			failed := releasev1alpha1.HistoryEntry{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed, ChartVersion: "1.1.0", Generation: 1}
			c := candidate{
				generation: 1, chart: newer, inputs: "of this process", unknown: true,
				status:   releasev1alpha1.ReleaseStatus{Failures: &test.failures, History: append([]releasev1alpha1.HistoryEntry{failed}, test.history...)},
				observed: helm.Snapshot{Record: &record.Record{Revision: 1, Status: "deployed", Own: true, Inputs: "older", ChartDigest: older.ShortDigest()}},
			}
			expect.Equal(t, "standing", test.want, standing(c))
			c.unknown = false
			expect.Equal(t, "standing if the inputs are known to be others", rollout.Due, standing(c))
		})
	}
}

// TestStandingByStatus: what the status alone says is what the records say, too.
func TestStandingByStatus(t *testing.T) {
	chart := chartVersion(t, "1.1.0")
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
			f := newFleet(discarding{}, nil, "Samples", Rollout{Chart: chart})
			got := standing(f.candidate(fleetObject{Generation: 1, Status: app.Status}, helm.Snapshot{Record: recordOf(app.Status, chart)}))
			expect.Equal(t, "standing", test.want, got)
		})
	}
}

// TestStandingOfOperatorChange: a change of the values that the operator makes has the same chart.
func TestStandingOfOperatorChange(t *testing.T) {
	chart := chartVersion(t, "1.1.0")
	revision := func(number int) *record.Record {
		return &record.Record{Revision: number, Status: "deployed", Own: true, Inputs: "inputs", ChartDigest: chart.ShortDigest(), Changed: began}
	}
	healthyAt := func(revision int64) func(*sample) {
		return func(s *sample) { s.Status.LastGoodRevision = revision }
	}
	tried := func(reason releasev1alpha1.UpgradeReason, outcome releasev1alpha1.HistoryOutcome, revision int64) func(*sample) {
		return func(s *sample) {
			s.Status.History = append([]releasev1alpha1.HistoryEntry{{
				Action: releasev1alpha1.HistoryUpgrade, Outcome: outcome, Reason: reason, Revision: revision, ChartVersion: "1.1.0", Generation: 1,
			}}, s.Status.History...)
			if outcome == releasev1alpha1.HistoryFailed {
				s.Status.Failures = &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Inputs: "version", Chart: chart.Digest()}
			}
		}
	}
	changed, spec := releasev1alpha1.UpgradeReasonOperatorChanged, releasev1alpha1.UpgradeReasonSpecGenerationChanged
	retried := releasev1alpha1.UpgradeReasonRetryAfterFailure
	failed, succeeded := releasev1alpha1.HistoryFailed, releasev1alpha1.HistorySucceeded
	rolledBack := func(s *sample) {
		s.Status.History = append([]releasev1alpha1.HistoryEntry{{Action: releasev1alpha1.HistoryRollback, Outcome: succeeded, Revision: 3, Generation: 1}}, s.Status.History...)
	}
	recovered := func(s *sample) { s.Status.Failures = nil }
	unhealthy := condition(apimeta.ConditionStalled, metav1.ConditionTrue, apimeta.ReasonUnhealthy)
	tests := []struct {
		name     string
		observed helm.Snapshot
		changes  bool
		after    time.Duration
		app      []func(*sample)
		want     rollout.Standing
	}{
		{"not upgraded", helm.Snapshot{Record: revision(1)}, true, 0, []func(*sample){healthyAt(1)}, rollout.Due},
		{"failed without a revision", helm.Snapshot{Record: revision(1)}, true, 0, []func(*sample){healthyAt(1), tried(changed, failed, 0)}, rollout.Failed},
		{"retry failed", helm.Snapshot{Record: revision(1)}, true, 0, []func(*sample){
			healthyAt(1), tried(changed, failed, 0), tried(retried, failed, 0),
		}, rollout.Failed},
		{"own change failed", helm.Snapshot{Record: revision(1)}, true, 0, []func(*sample){healthyAt(1), tried(spec, failed, 0)}, rollout.Settled},
		{"own change failed after the change succeeded", helm.Snapshot{Record: revision(2)}, true, 0, []func(*sample){
			healthyAt(2), tried(changed, succeeded, 2), tried(spec, failed, 0),
		}, rollout.Settled},
		{"rolled back", helm.Snapshot{Record: revision(3)}, false, 0, []func(*sample){healthyAt(3), tried(changed, failed, 2), rolledBack}, rollout.Failed},
		{"upgraded, pods start", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(1), tried(changed, succeeded, 2),
		}, rollout.Active},
		{"upgraded, unhealthy", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(1), tried(changed, succeeded, 2), unhealthy,
		}, rollout.Failed},
		{"upgraded, healthy", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(2), tried(changed, succeeded, 2),
		}, rollout.Settled},
		{"own change, pods start", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(1), tried(spec, succeeded, 2),
		}, rollout.Settled},
		{"never healthy, within its timeout", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, time.Minute, []func(*sample){
			tried(changed, succeeded, 2),
		}, rollout.Active},
		{"never healthy, after its timeout", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 6 * time.Minute, []func(*sample){
			tried(changed, succeeded, 2),
		}, rollout.Settled},
		{"retry made the revision, pods start", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(1), tried(changed, failed, 0), tried(retried, failed, 0), tried(retried, succeeded, 2), recovered,
		}, rollout.Active},
		{"retry of an own change made the revision", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			healthyAt(1), tried(changed, failed, 0), tried(spec, failed, 0), tried(retried, succeeded, 2), recovered,
		}, rollout.Settled},
		{"unhealthy before and now", helm.Snapshot{Record: revision(2), LastGood: revision(1)}, false, 0, []func(*sample){
			tried(changed, succeeded, 2), unhealthy,
		}, rollout.Settled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := candidate{
				generation: 1, status: newSample(test.app...).Status, observed: test.observed, chart: chart, inputs: "version", changes: test.changes,
				now: began.Add(test.after), timeout: 5 * time.Minute,
			}
			expect.Equal(t, "standing", test.want, standing(c))
			c.inputs, c.changes = "", false
			if want := test.want; want != rollout.Due { // Only a pass knows the desired inputs.
				expect.Equal(t, "standing before the first pass", want, standing(c))
			}
			c.chart = nil
			c.inputs, c.changes = "version", test.changes
			expect.Equal(t, "standing with a chart of its own", test.want, standing(c))
		})
	}
}
