// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// deployedStatus is Helm's for a revision that was a success.
const deployedStatus = "deployed"

// historyActions are the engine's actions in the history's words.
var historyActions = map[helm.Action]releasev1alpha1.HistoryAction{
	helm.ActionInstall:  releasev1alpha1.HistoryInstall,
	helm.ActionUpgrade:  releasev1alpha1.HistoryUpgrade,
	helm.ActionReapply:  releasev1alpha1.HistoryRepair,
	helm.ActionRepair:   releasev1alpha1.HistoryRepair,
	helm.ActionRollback: releasev1alpha1.HistoryRollback,
}

// remember puts an entry at the head of the history. What happens again in the
// same way is counted instead, so that a failure that is retried does not push
// out what came before it.
func remember(history []releasev1alpha1.HistoryEntry, entry releasev1alpha1.HistoryEntry) []releasev1alpha1.HistoryEntry {
	if len(history) > 0 && isRepetition(history[0], entry) {
		entry.Count = max(history[0].Count, 1) + 1
		history = history[1:]
	}
	kept := append([]releasev1alpha1.HistoryEntry{entry}, history...)
	return kept[:min(len(kept), releasev1alpha1.HistoryLimit)]
}

func isRepetition(before, now releasev1alpha1.HistoryEntry) bool {
	before.Time, before.Count = now.Time, now.Count
	return before == now
}

// recordSuccess puts what was done into the history, and ends a row of failures.
func recordSuccess(p *pass, action helm.Action) {
	s := &p.app.Status
	s.History = remember(s.History, releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: historyActions[action], Outcome: releasev1alpha1.HistorySucceeded,
		Reason: s.LastUpgradeReason, Revision: s.DeployedRelease.Revision, ChartVersion: s.DeployedRelease.ChartVersion,
		Generation: p.app.Generation,
	})
}

// recordFailure counts an attempt that failed and puts it into the history, as long as
// the conditions are as they were before.
//
// A failure that no other attempt can avoid is the last one, where remediation
// counts them.
func (c *Controller) recordFailure(ctx context.Context, p *pass, terminal bool) {
	decision := p.plan.Decision
	action, attempted := historyActions[decision.Action]
	if !attempted {
		return
	}
	s := &p.app.Status
	entry := releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: action, Outcome: releasev1alpha1.HistoryFailed,
		Reason: reasonFor(p, decision, c.chart), Revision: c.failedRevision(ctx, p), Generation: p.app.Generation,
	}
	failures := currentFailures(p)
	switch action {
	case releasev1alpha1.HistoryRepair:
		// It is no attempt at what is wanted, which may not be known now: the row stays.
		failures = storedFailures(p)
		failures.Repairs++
	case releasev1alpha1.HistoryInstall:
		entry.ChartVersion = c.chart.Version()
		failures.Consecutive++
		failures.Installs++
	case releasev1alpha1.HistoryUpgrade:
		entry.ChartVersion = c.chart.Version()
		failures.Consecutive++
		failures.Upgrades++
	case releasev1alpha1.HistoryRollback:
		failures.Rollbacks++
	}
	if spec := p.app.Spec.Remediation; spec != nil && terminal && action != releasev1alpha1.HistoryRepair && failures.Consecutive > 0 {
		failures.Consecutive = max(failures.Consecutive, orDefault(spec.Retries, defaultRetries)+1)
	}
	s.Failures = &failures
	s.History = remember(s.History, entry)
}

// failedRevision is the revision of the record that an attempt left which failed; 0
// when it left none.
func (c *Controller) failedRevision(ctx context.Context, p *pass) int64 {
	// Without a baseline, it tells of the records alone, and waits for nothing.
	observed, err := c.engine.Observe(ctx, p.key(), helm.Baseline{})
	record, decision := observed.Record, p.plan.Decision
	if err != nil || record == nil || !record.Own || record.Status == deployedStatus || record.Unhealthy || isRepair(decision.Action) {
		return 0
	}
	made := record.Inputs == p.inputs
	if decision.Action == helm.ActionRollback {
		made = record.RolledBackTo == decision.To
	}
	if !made {
		return 0 // It is that of an earlier one.
	}
	return int64(record.Revision)
}

// recordUnhealthy counts a revision that did not become healthy in time, once.
func recordUnhealthy(p *pass, revision int64) {
	s := &p.app.Status
	if unhealthyRevision(*s) == revision {
		return
	}
	failures := currentFailures(p)
	failures.Consecutive++
	entry := releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed,
		Reason: s.LastUpgradeReason, Revision: revision, ChartVersion: s.DeployedRelease.ChartVersion, Generation: p.app.Generation,
	}
	if made := madeBy(s.History, revision); made != nil {
		entry.Reason = made.Reason
	}
	if revision == 1 {
		entry.Action = releasev1alpha1.HistoryInstall
		failures.Installs++
	} else {
		failures.Upgrades++
	}
	s.Failures = &failures
	s.History = remember(s.History, entry)
}

// unhealthyRevision is the deployed one when it was found not to be healthy in time; 0
// otherwise. That is a failure after the success: the history drops the oldest first.
func unhealthyRevision(s v1alpha1.DemoAppStatus) int64 {
	if s.DeployedRelease == nil {
		return 0
	}
	made := madeBy(s.History, s.DeployedRelease.Revision)
	if made == nil || made.Outcome != releasev1alpha1.HistoryFailed {
		return 0
	}
	return made.Revision
}

// madeBy is the newest entry about how a revision was made; nil when there is none. A
// repair makes none.
func madeBy(history []releasev1alpha1.HistoryEntry, revision int64) *releasev1alpha1.HistoryEntry {
	at := slices.IndexFunc(history, func(entry releasev1alpha1.HistoryEntry) bool {
		return entry.Revision == revision && entry.Action != releasev1alpha1.HistoryRepair
	})
	if at < 0 {
		return nil
	}
	return &history[at]
}

// currentFailures are the app's failures. Those in a row count for the spec and
// the inputs that they were seen with; others start afresh.
func currentFailures(p *pass) releasev1alpha1.FailureCounts {
	failures := storedFailures(p)
	if failures.Generation != p.app.Generation || failures.Inputs != p.inputsVersion {
		failures.Consecutive, failures.Generation, failures.Inputs = 0, p.app.Generation, p.inputsVersion
	}
	return failures
}

// storedFailures are the app's failures, whatever those in a row count for.
func storedFailures(p *pass) releasev1alpha1.FailureCounts {
	if p.app.Status.Failures == nil {
		return releasev1alpha1.FailureCounts{}
	}
	return *p.app.Status.Failures
}

// forgetFailures ends a row of failures; what has been counted in all stays.
func forgetFailures(s *v1alpha1.DemoAppStatus) {
	if s.Failures == nil {
		return
	}
	s.Failures.Consecutive, s.Failures.Generation, s.Failures.Inputs = 0, 0, ""
}
