// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// deployedStatus is Helm's status of a successful revision.
const deployedStatus = "deployed"

// historyActions maps the engine's actions to the actions of the history.
var historyActions = map[helm.Action]releasev1alpha1.HistoryAction{
	helm.ActionInstall:  releasev1alpha1.HistoryInstall,
	helm.ActionUpgrade:  releasev1alpha1.HistoryUpgrade,
	helm.ActionReapply:  releasev1alpha1.HistoryRepair,
	helm.ActionRepair:   releasev1alpha1.HistoryRepair,
	helm.ActionRollback: releasev1alpha1.HistoryRollback,
}

// remember adds an entry at the head of the history. A repeated entry only increments the
// count, so a retried failure does not push out older entries.
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
	return equality.Semantic.DeepEqual(before, now)
}

// recordSuccess adds a successful action to the history.
func recordSuccess(s *releasev1alpha1.ReleaseStatus, f Facts, action helm.Action, changes helm.Changes) {
	s.History = remember(s.History, releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(f.Now).Rfc3339Copy(), Action: historyActions[action], Outcome: releasev1alpha1.HistorySucceeded,
		Reason: s.LastUpgradeReason, Revision: s.DeployedRelease.Revision, ChartVersion: s.DeployedRelease.ChartVersion,
		Generation: f.Generation, Changed: changes.Named, ChangedMore: int64(changes.More),
	})
}

// recordFailure counts a failed attempt and adds it to the history. revision is the revision of the
// record which the attempt left; 0 for none. After a terminal failure, remediation follows at once,
// because no retry can succeed.
func recordFailure(s *releasev1alpha1.ReleaseStatus, f Facts, plan Plan, failed failure, revision int64) {
	action, attempted := historyActions[plan.Decision.Action]
	if !attempted {
		return
	}
	entry := releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(f.Now).Rfc3339Copy(), Action: action, Outcome: releasev1alpha1.HistoryFailed,
		Reason: reasonFor(f, plan, *s, plan.Decision), Revision: revision, Generation: f.Generation,
		Changed: plan.Changes.Named, ChangedMore: int64(plan.Changes.More),
	}
	failures := currentFailures(f, *s)
	switch action {
	case releasev1alpha1.HistoryRepair:
		// A repair is not an attempt at the desired state, which may be unknown now. The
		// series of failures stays.
		failures = storedFailures(*s)
		failures.Repairs++
	case releasev1alpha1.HistoryInstall, releasev1alpha1.HistoryUpgrade:
		failures = countAttempt(failures, action, f.Desired.Release.Chart, failed.CausedByObject)
		failures.Terminal, failures.Capabilities = failed.Terminal, f.Capabilities
		entry.ChartVersion = f.Desired.Release.Chart.Version()
		if pause := pauseAfter(f.Desired.Policy.Remediation, failures, revision != 0); pause > 0 && !failed.Final {
			failures.RetryAt = retryAt(f, pause)
		}
	case releasev1alpha1.HistoryRollback:
		failures.Rollbacks++
		// A change whose failure is final is tried again, too, because no good state came back.
		if pause := pauseAfter(f.Desired.Policy.Remediation, failures, true); pause > 0 && failures.RetryAt == nil {
			failures.RetryAt = retryAt(f, pause)
		}
	}
	if action != releasev1alpha1.HistoryRepair && failures.Consecutive > 0 {
		failures.Terminal = failures.Terminal || failed.Terminal
	}
	s.Failures = &failures
	s.History = remember(s.History, entry)
}

// recordLate counts, once, a revision that did not become healthy in time. It returns the
// action that failed. podsRefused says that the namespace caused the failure, and not the
// chart.
func recordLate(s *releasev1alpha1.ReleaseStatus, f Facts, podsRefused bool) releasev1alpha1.HistoryAction {
	revision := s.DeployedRelease.Revision
	if lateRevision(*s) == revision {
		return madeBy(s.History, revision).Action
	}
	entry := releasev1alpha1.HistoryEntry{
		Time: metav1.NewTime(f.Now).Rfc3339Copy(), Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed,
		Reason: s.LastUpgradeReason, Revision: revision, ChartVersion: s.DeployedRelease.ChartVersion, Generation: f.Generation,
	}
	if made := madeBy(s.History, revision); made != nil {
		entry.Reason, entry.Changed, entry.ChangedMore = made.Reason, made.Changed, made.ChangedMore
	}
	if revision == 1 {
		entry.Action = releasev1alpha1.HistoryInstall
	}
	failures := countAttempt(currentFailures(f, *s), entry.Action, f.Desired.Release.Chart, podsRefused)
	remediation := f.Desired.Policy.Remediation
	if podsRefused && chooseStrategy(remediation, failures, s.LastGoodRevision) == rollBack {
		failures.RetryAt = retryAt(f, pauseAfter(remediation, failures, true))
	}
	s.Failures = &failures
	s.History = remember(s.History, entry)
	return entry.Action
}

// countAttempt counts one failed attempt at the desired release.
func countAttempt(
	failures releasev1alpha1.FailureCounts, action releasev1alpha1.HistoryAction, chart *chart.Chart, causedByObject bool,
) releasev1alpha1.FailureCounts {
	failures.Consecutive++
	failures.Chart, failures.CausedByObject, failures.Terminal = chart.Digest(), causedByObject, false
	failures.RetryAt, failures.Capabilities = nil, ""
	if action == releasev1alpha1.HistoryInstall {
		failures.Installs++
	} else {
		failures.Upgrades++
	}
	return failures
}

// lateRevision returns the deployed revision if it was not healthy in time; 0 otherwise.
// The failure is a later entry than the success, and the history drops the oldest entries
// first.
func lateRevision(s releasev1alpha1.ReleaseStatus) int64 {
	if s.DeployedRelease == nil {
		return 0
	}
	made := madeBy(s.History, s.DeployedRelease.Revision)
	if made == nil || made.Outcome != releasev1alpha1.HistoryFailed {
		return 0
	}
	return made.Revision
}

// madeBy returns the newest entry of the action that created a revision; nil without such an entry.
// A repair creates no revision.
func madeBy(history []releasev1alpha1.HistoryEntry, revision int64) *releasev1alpha1.HistoryEntry {
	at := slices.IndexFunc(history, func(entry releasev1alpha1.HistoryEntry) bool {
		return entry.Revision == revision && entry.Action != releasev1alpha1.HistoryRepair
	})
	if at < 0 {
		return nil
	}
	return &history[at]
}

// currentFailures returns the failures so far. Consecutive failures count for one
// generation and one set of inputs. Another generation or other inputs reset them. So do other
// capabilities of the cluster, if the failures depend on them.
func currentFailures(f Facts, s releasev1alpha1.ReleaseStatus) releasev1alpha1.FailureCounts {
	failures := storedFailures(s)
	if failures.Generation != f.Generation || failures.Inputs != f.InputVersion || differs(failures.Capabilities, f.Capabilities) {
		resetFailures(&failures)
		failures.Generation, failures.Inputs = f.Generation, f.InputVersion
	}
	return failures
}

// storedFailures returns the failures so far, without a reset of the consecutive ones.
func storedFailures(s releasev1alpha1.ReleaseStatus) releasev1alpha1.FailureCounts {
	if s.Failures == nil {
		return releasev1alpha1.FailureCounts{}
	}
	return *s.Failures
}

// forgetFailures resets the consecutive failures. The totals stay.
func forgetFailures(s *releasev1alpha1.ReleaseStatus) {
	if s.Failures != nil {
		resetFailures(s.Failures)
	}
}

// resetFailures resets what counts the consecutive failures.
func resetFailures(failures *releasev1alpha1.FailureCounts) {
	failures.Consecutive, failures.Generation, failures.Inputs, failures.Chart = 0, 0, "", ""
	failures.CausedByObject, failures.Terminal, failures.RetryAt, failures.Capabilities = false, false, nil, ""
}

// differs reports whether two capabilities are known and differ.
func differs(a, b string) bool { return a != "" && b != "" && a != b }
