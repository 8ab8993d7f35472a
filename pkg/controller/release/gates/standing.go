// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// standing derives the state of an object with the chart from its status and records.
// inputs is Facts.InputVersion; empty if it is unknown.
//
// Some objects say nothing about the chart and do not count: an object that failed with the
// chart before, too, one that was unhealthy before and is unhealthy now, a suspended one, and
// one that failed because of itself or its namespace.
func standing(
	generation int64, suspended bool, s releasev1alpha1.ReleaseStatus, observed helm.Snapshot, chart *chart.Chart, inputs string,
) rollout.Standing {
	record := observed.Record
	if record == nil || !record.Own {
		return rollout.Settled
	}
	made := record.MadeFrom(chart)
	switch {
	case made && (int64(record.Revision) <= s.LastGoodRevision || !cameFromAnotherChart(s, observed, chart)):
		return rollout.Settled
	case failedWithChart(generation, s, record, chart, inputs):
		if s.Failures.CausedByObject || failedBefore(s.History, chart) {
			return rollout.Settled
		}
		return rollout.Failed
	case !made:
		return rollout.Due
	case suspended, !wasHealthyBefore(s, observed, chart), release.Summarize(observed.Health).PodsRefused:
		return rollout.Settled
	}
	stalled := meta.FindStatusCondition(s.Conditions, apimeta.ConditionStalled)
	if stalled != nil && (stalled.Reason == apimeta.ReasonUnhealthy || stalled.Reason == releasev1alpha1.ReasonHealthTimeout) {
		return rollout.Failed
	}
	return rollout.Active
}

// standingByStatus derives the state of an object from its status alone, because the process caches
// no release records of other shards. It tells failed objects from all others.
func standingByStatus(object RolloutObject, chart *chart.Chart) rollout.Standing {
	deployed := object.Status.DeployedRelease
	if deployed == nil {
		return rollout.Settled
	}
	known := &record.Record{Own: true, Revision: int(deployed.Revision)}
	if deployed.ChartVersion == chart.Version() {
		known.ChartDigest = chart.ShortDigest()
	}
	return standing(object.Generation, object.Suspended, object.Status, helm.Snapshot{Record: known}, chart, "")
}

// cameFromAnotherChart distinguishes a release that was upgraded to the chart, and was
// not healthy with it yet, from one that was installed with it.
func cameFromAnotherChart(s releasev1alpha1.ReleaseStatus, observed helm.Snapshot, chart *chart.Chart) bool {
	if before := observed.LastGood; before != nil && before.Own && !before.MadeFrom(chart) {
		return true
	}
	return slices.ContainsFunc(s.History, func(entry releasev1alpha1.HistoryEntry) bool {
		return entry.Reason == releasev1alpha1.UpgradeReasonChartChanged && entry.ChartVersion == chart.Version() &&
			entry.Revision > s.LastGoodRevision
	})
}

// wasHealthyBefore reports whether the last revision with another chart was healthy once,
// as far as the status tells.
func wasHealthyBefore(s releasev1alpha1.ReleaseStatus, observed helm.Snapshot, chart *chart.Chart) bool {
	before := observed.LastGood
	if before == nil || before.MadeFrom(chart) {
		return s.LastGoodRevision > 0
	}
	return s.LastGoodRevision >= int64(before.Revision)
}

// failedWithChart reports whether the last attempt failed with the chart.
func failedWithChart(generation int64, s releasev1alpha1.ReleaseStatus, record *record.Record, chart *chart.Chart, inputs string) bool {
	failures := s.Failures
	if failures == nil || failures.Consecutive == 0 || failures.Generation != generation {
		return false
	}
	if inputs != "" {
		return failures.Inputs == inputs
	}
	if failures.Chart != "" {
		return failures.Chart == chart.Digest()
	}
	return record.MadeFrom(chart) // The status was written before the chart was recorded.
}

// failedBefore reports whether the attempt before the first failure with the chart also
// failed, or was a rollback.
func failedBefore(history []releasev1alpha1.HistoryEntry, chart *chart.Chart) bool {
	tried := false
	for _, entry := range history {
		failed := entry.Outcome == releasev1alpha1.HistoryFailed
		switch {
		case failed && entry.ChartVersion == chart.Version():
			tried = true
		case tried:
			return failed || entry.Action == releasev1alpha1.HistoryRollback
		}
	}
	return false
}
