// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// fleetReasons are the reasons of changes that the object did not make itself. Such a change
// reaches several objects at a time.
var fleetReasons = []releasev1alpha1.UpgradeReason{
	releasev1alpha1.UpgradeReasonChartChanged, releasev1alpha1.UpgradeReasonOperatorChanged, releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged,
}

// candidate is what decides how an object stands to a change of the fleet.
type candidate struct {
	generation int64
	suspended  bool
	status     releasev1alpha1.ReleaseStatus
	observed   helm.Snapshot
	// chart is the desired chart; nil if it is unknown.
	chart *chart.Chart
	// inputs is Facts.InputVersion; empty before the first pass.
	inputs string
	// unknown is Facts.FailureUnknown for failures that halt the rollout.
	unknown bool
	// now and timeout limit how long a release that was not healthy before takes a turn.
	now     time.Time
	timeout time.Duration
	// changes says that the fleet changes the values of the object, and the object itself has
	// not changed. It is false before the first pass.
	changes bool
}

// candidateOf is the state of an object in a pass. halts says that failures halt the rollout.
func candidateOf(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus, halts bool) candidate {
	return candidate{
		generation: f.Generation, suspended: f.Desired.Policy.Suspend, status: s, observed: plan.Observed, chart: f.Desired.Release.Chart,
		inputs: f.InputVersion, unknown: f.FailureUnknown && halts, changes: changesFleet(f, plan, s), now: f.Now, timeout: Timeout(f.Desired.Policy),
	}
}

// changesFleet reports whether the release gets other inputs although the object has not changed
// itself.
func changesFleet(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	record := plan.Observed.Record
	return f.Desired.Known && record != nil && record.Own && !record.Settles(f.Digest) && !changedItself(f, record, s)
}

// changedItself reports whether the spec of the object, or another object that it names, has
// changed since the last attempt. Another version of what failed with the chart is such a change,
// too.
func changedItself(f Facts, record *record.Record, s releasev1alpha1.ReleaseStatus) bool {
	if f.SourcesChanged || !attempted(f.Generation, record, s) {
		return true
	}
	failures := s.Failures
	return f.Desired.InputVersion != "" && failures != nil && failures.Consecutive > 0 && failures.Generation == f.Generation &&
		failures.Chart == f.Desired.Release.Chart.Digest() && failures.Inputs != f.InputVersion
}

// attempted reports whether an install or upgrade was made or tried for the generation. A change
// of the spec that changes no input needs none: then Deployed names the generation.
func attempted(generation int64, record *record.Record, s releasev1alpha1.ReleaseStatus) bool {
	deployed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDeployed)
	if record.Owner.Generation == generation || deployed != nil && deployed.Status == metav1.ConditionTrue && deployed.ObservedGeneration == generation {
		return true
	}
	return slices.ContainsFunc(s.History, func(entry releasev1alpha1.HistoryEntry) bool {
		made := entry.Action == releasev1alpha1.HistoryInstall || entry.Action == releasev1alpha1.HistoryUpgrade
		return made && entry.Generation == generation
	})
}

// standing derives the state of an object in the rollout from its status and records.
//
// Some objects say nothing about the change and do not count: an object that failed before, too, an
// object that was unhealthy before and is unhealthy now, a suspended object, and an object that
// failed because of itself or its namespace. An object that was not healthy before has a turn for
// the time of its timeout: a fleet that is not healthy is changed a few objects at a time, too.
//
// An object that failed in an earlier process stays failed until an attempt succeeds, if its inputs
// may still be the same. Otherwise, each restart would let further objects fail.
func standing(c candidate) rollout.Standing {
	if before := c.beforeFirstPass(); c.unknown && before.failed() && standing(before) == rollout.Failed {
		return rollout.Failed
	}
	record, s := c.observed.Record, c.status
	if record == nil || !record.Own {
		return rollout.Settled
	}
	made, good := c.isMadeFromChart(record), int64(record.Revision) <= s.LastGoodRevision
	if c.failed() {
		c.changes = c.failedWithChange() // Otherwise, the object's own change is tried again.
	}
	switch {
	case made && !c.changes && (good || !c.gotChange()):
		return rollout.Settled
	case c.failed():
		if s.Failures.CausedByObject || c.failedBefore() {
			return rollout.Settled
		}
		return rollout.Failed
	case !made || c.changes:
		return rollout.Due
	case c.suspended, Summarize(c.observed.Health).PodsRefused:
		return rollout.Settled
	}
	stalled := meta.FindStatusCondition(s.Conditions, apimeta.ConditionStalled)
	unhealthy := stalled != nil && (stalled.Reason == apimeta.ReasonUnhealthy || stalled.Reason == releasev1alpha1.ReasonHealthTimeout)
	switch {
	case !c.wasHealthyBefore() && (unhealthy || c.timeLeft() == 0):
		return rollout.Settled
	case unhealthy:
		return rollout.Failed
	default:
		return rollout.Active
	}
}

// beforeFirstPass is the state of the object before the first pass of the process.
func (c candidate) beforeFirstPass() candidate {
	c.inputs, c.unknown, c.changes = "", false, false
	return c
}

// timeLeft is the time for which a release that was not healthy before the change keeps its turn.
func (c candidate) timeLeft() time.Duration {
	return max(0, c.observed.Record.Changed.Add(c.timeout).Sub(c.now))
}

// recordOf returns the newest record, as the status describes it; nil if nothing is deployed.
func recordOf(s releasev1alpha1.ReleaseStatus, chart *chart.Chart) *record.Record {
	deployed := s.DeployedRelease
	if deployed == nil {
		return nil
	}
	known := &record.Record{Own: true, Revision: int(deployed.Revision)}
	if chart != nil && deployed.ChartVersion == chart.Version() {
		known.ChartDigest = chart.ShortDigest()
	}
	return known
}

func (c candidate) isMadeFromChart(record *record.Record) bool {
	return c.chart == nil || record.MadeFrom(c.chart)
}

// gotChange distinguishes a release that a change of the fleet made, and that was not healthy with
// it yet, from a release that was installed with it.
func (c candidate) gotChange() bool {
	if before := c.observed.LastGood; before != nil && before.Own && !c.isMadeFromChart(before) {
		return true
	}
	return c.firstChange() > 0
}

// firstChange returns the oldest revision after the last good one that comes from a change of the
// fleet. It returns 0 without such a revision. The retry of an attempt that left no revision belongs to the change of
// the attempt.
func (c candidate) firstChange() (first int64) {
	retry, good := int64(0), c.status.LastGoodRevision
	for _, entry := range c.status.History {
		ofChart := entry.Reason != releasev1alpha1.UpgradeReasonChartChanged || c.chart == nil || entry.ChartVersion == c.chart.Version()
		ofFleet := slices.Contains(fleetReasons, entry.Reason) && ofChart
		switch retries := entry.Reason == releasev1alpha1.UpgradeReasonRetryAfterFailure; {
		case ofFleet && entry.Revision > good:
			first = entry.Revision
		case ofFleet && entry.Outcome == releasev1alpha1.HistoryFailed:
			first = cmp.Or(retry, first)
		case retries && entry.Revision > good:
			retry = entry.Revision
		case entry.Action != releasev1alpha1.HistoryRepair && (!retries || entry.Revision > 0):
			retry = 0 // It was a retry of this attempt, or this revision ended the attempts.
		}
	}
	return first
}

// wasHealthyBefore reports whether the last revision before the change was healthy once, according
// to the status.
func (c candidate) wasHealthyBefore() bool {
	before, first := c.observed.LastGood, c.firstChange()
	if before == nil || c.isMadeFromChart(before) && (first == 0 || int64(before.Revision) >= first) {
		return c.status.LastGoodRevision > 0
	}
	return c.status.LastGoodRevision >= int64(before.Revision)
}

// failed reports whether the last attempt failed with the desired inputs, or before the first
// pass with the desired chart.
func (c candidate) failed() bool {
	failures := c.status.Failures
	switch {
	case failures == nil || failures.Consecutive == 0 || failures.Generation != c.generation:
		return false
	case c.inputs != "":
		return failures.Inputs == c.inputs
	case failures.Chart != "":
		return c.chart == nil || failures.Chart == c.chart.Digest()
	default:
		return c.isMadeFromChart(c.observed.Record) // The status was written before the chart was recorded.
	}
}

// failedWithChange reports whether the attempts that failed last began with a change of the fleet.
func (c candidate) failedWithChange() bool {
	for _, entry := range c.status.History {
		attempt := entry.Action == releasev1alpha1.HistoryInstall || entry.Action == releasev1alpha1.HistoryUpgrade
		switch {
		case !attempt:
		case entry.Outcome != releasev1alpha1.HistoryFailed || entry.Generation != c.generation:
			return false
		case slices.Contains(fleetReasons, entry.Reason):
			return true
		}
	}
	return false
}

// failedBefore reports whether the attempt before the first failure with the chart also
// failed, or was a rollback.
func (c candidate) failedBefore() bool {
	tried := false
	for _, entry := range c.status.History {
		failed := entry.Outcome == releasev1alpha1.HistoryFailed
		switch {
		case failed && (c.chart == nil || entry.ChartVersion == c.chart.Version()):
			tried = true
		case tried:
			return failed || entry.Action == releasev1alpha1.HistoryRollback
		}
	}
	return false
}
