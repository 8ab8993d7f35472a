// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// historyActions are the engine's actions in the history's words.
var historyActions = map[helm.Action]v1alpha1.HistoryAction{
	helm.ActionInstall:  v1alpha1.HistoryInstall,
	helm.ActionUpgrade:  v1alpha1.HistoryUpgrade,
	helm.ActionReapply:  v1alpha1.HistoryRepair,
	helm.ActionRepair:   v1alpha1.HistoryRepair,
	helm.ActionRollback: v1alpha1.HistoryRollback,
}

// remember puts an entry at the head of the history. What happens again in the
// same way is counted instead, so that a failure that is retried does not push
// out what came before it.
func remember(history []v1alpha1.HistoryEntry, entry v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	if len(history) > 0 && isRepetition(history[0], entry) {
		entry.Count = max(history[0].Count, 1) + 1
		history = history[1:]
	}
	kept := append([]v1alpha1.HistoryEntry{entry}, history...)
	return kept[:min(len(kept), v1alpha1.HistoryLimit)]
}

func isRepetition(before, now v1alpha1.HistoryEntry) bool {
	before.Time, before.Count = now.Time, now.Count
	return before == now
}

// recordSuccess puts what was done into the history, and ends a row of failures.
func recordSuccess(p *pass, action helm.Action) {
	s := &p.app.Status
	s.History = remember(s.History, v1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: historyActions[action], Outcome: v1alpha1.HistorySucceeded,
		Reason: s.LastUpgradeReason, Revision: s.DeployedRelease.Revision, ChartVersion: s.DeployedRelease.ChartVersion,
		Generation: p.app.Generation,
	})
}

// recordFailure counts an attempt that failed and puts it into the history.
//
// A failure that no other attempt can avoid is the last one, where remediation
// counts them.
func recordFailure(p *pass, action helm.Action, chartVersion string, terminal bool) {
	known, attempted := historyActions[action]
	if !attempted {
		return
	}
	s := &p.app.Status
	entry := v1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: known, Outcome: v1alpha1.HistoryFailed,
		ChartVersion: chartVersion, Generation: p.app.Generation,
	}
	failures := currentFailures(p)
	switch known {
	case v1alpha1.HistoryRepair:
		// It is no attempt at what is wanted, which may not be known now: the row stays.
		failures = storedFailures(p)
		entry.ChartVersion = ""
		failures.Repairs++
	case v1alpha1.HistoryInstall:
		failures.Consecutive++
		failures.Installs++
	case v1alpha1.HistoryUpgrade:
		failures.Consecutive++
		failures.Upgrades++
	case v1alpha1.HistoryRollback:
		entry.ChartVersion = ""
		failures.Rollbacks++
	}
	if spec := p.app.Spec.Remediation; spec != nil && terminal && known != v1alpha1.HistoryRepair && failures.Consecutive > 0 {
		failures.Consecutive = max(failures.Consecutive, orDefault(spec.Retries, defaultRetries)+1)
	}
	s.Failures = &failures
	s.History = remember(s.History, entry)
}

// recordUnhealthy counts a revision that did not become healthy in time, once.
func recordUnhealthy(p *pass, revision int64) {
	s := &p.app.Status
	if slices.ContainsFunc(s.History, func(entry v1alpha1.HistoryEntry) bool {
		return entry.Revision == revision && entry.Outcome == v1alpha1.HistoryFailed
	}) {
		return
	}
	action := v1alpha1.HistoryUpgrade
	failures := currentFailures(p)
	failures.Consecutive++
	if revision == 1 {
		action = v1alpha1.HistoryInstall
		failures.Installs++
	} else {
		failures.Upgrades++
	}
	s.Failures = &failures
	s.History = remember(s.History, v1alpha1.HistoryEntry{
		Time: metav1.NewTime(p.now).Rfc3339Copy(), Action: action, Outcome: v1alpha1.HistoryFailed,
		Revision: revision, ChartVersion: s.DeployedRelease.ChartVersion, Generation: p.app.Generation,
	})
}

// currentFailures are the app's failures. Those in a row count for the spec and
// the inputs that they were seen with; others start afresh.
func currentFailures(p *pass) v1alpha1.FailureCounts {
	failures := storedFailures(p)
	if failures.Generation != p.app.Generation || failures.Inputs != p.inputs {
		failures.Consecutive, failures.Generation, failures.Inputs = 0, p.app.Generation, p.inputs
	}
	return failures
}

// storedFailures are the app's failures, whatever those in a row count for.
func storedFailures(p *pass) v1alpha1.FailureCounts {
	if p.app.Status.Failures == nil {
		return v1alpha1.FailureCounts{}
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
