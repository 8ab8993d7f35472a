// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// health is what spec.waitForReady finds about the deployed revision.
type health struct {
	// judged says that the deployed revision is the newest one, so that its health counts.
	judged bool
	// late says that the revision did not become healthy in time, and why; else empty.
	late string
	// timeLeft is how long the revision may still take; 0 where that does not matter.
	timeLeft time.Duration
}

// judgeHealth decides whether a new revision became healthy in time, where the policy
// waits for that.
func judgeHealth(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) health {
	if s.DeployedRelease == nil || plan.Next.RolledBack || !plan.Observed.BaselineKnown || !keepsRevision(plan.Next.Action) {
		return health{}
	}
	revision, record := s.DeployedRelease.Revision, plan.Observed.Record
	summary := Summarize(plan.Observed.Health)
	if s.LastGoodRevision == revision || summary.Healthy || !f.Desired.Policy.WaitForReady {
		return health{judged: true}
	}
	timeout := Timeout(f.Desired.Policy)
	if left := record.Changed.Add(timeout).Sub(f.Now); left > 0 && !record.Unhealthy {
		return health{judged: true, timeLeft: left}
	}
	return health{judged: true, late: fmt.Sprintf("Revision %d is not healthy after %s: %s",
		revision, timeout, f.Desired.Redactor.Text(summary.Message))}
}

// keepsRevision reports whether the newest revision is the desired one, be it that objects
// of it have drifted: drift that is left as it is must not keep the revision from being
// judged.
func keepsRevision(action helm.Action) bool {
	return action == helm.ActionNone || action == helm.ActionRepair
}

// strategy is what becomes of a release whose attempts fail.
type strategy int

const (
	// retry: another attempt, or nothing has failed.
	retry strategy = iota
	// rollBack: bring back the last good revision.
	rollBack
	// leave: change nothing until the spec changes.
	leave
)

// chooseStrategy decides by what has failed so far. The last good revision is 0
// when there is none.
func chooseStrategy(spec *releasev1alpha1.Remediation, failed, lastGood int64) strategy {
	switch {
	case spec == nil || failed <= retries(spec):
		return retry
	case spec.Strategy != releasev1alpha1.RemediationNone && lastGood > 0:
		return rollBack
	default:
		return leave
	}
}

// remedy is what to do about attempts that failed as often as they may.
type remedy struct {
	plan Plan
	// reason and message say that a person has to go on from here; else empty.
	reason, message string
	// keep says that it cannot be told now, and that what the status says stays.
	keep bool
}

// remediate turns the plan into a rollback, or holds it until the spec changes, when
// attempts have failed as often as they may.
func remediate(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) remedy {
	if plan.Next.RolledBack {
		return remedy{plan: plan, reason: releasev1alpha1.ReasonRolledBack,
			message: fmt.Sprintf("Rolled back to revision %d; a change of the spec starts afresh", plan.Observed.Record.RolledBackTo)}
	}
	if !f.Desired.Known && isCurrent(s, releasev1alpha1.ConditionRemediated, f.Generation) {
		return remedy{plan: plan, keep: true}
	}
	failed, chosen := currentFailures(f, s).Consecutive, retry
	if plan.RollsOut() {
		chosen = chooseStrategy(f.Desired.Policy.Remediation, failed, rollbackTarget(plan, s))
	}
	switch chosen {
	case rollBack:
		return remedy{plan: plan.next(helm.Decision{
			Action: helm.ActionRollback, Cause: helm.CauseFailed, To: int(rollbackTarget(plan, s)),
		}), keep: true}
	case leave:
		plan = plan.hold()
		plan.Next = helm.Decision{Action: helm.ActionNone}
		return remedy{plan: plan, reason: releasev1alpha1.ReasonRetriesExhausted,
			message: fmt.Sprintf("Gave up after %d failed attempts; a change of the spec starts afresh", failed)}
	case retry:
	}
	return remedy{plan: plan}
}

// isCurrent reports whether there is a condition of the type that speaks of the generation.
func isCurrent(s releasev1alpha1.ReleaseStatus, conditionType string, generation int64) bool {
	condition := meta.FindStatusCondition(s.Conditions, conditionType)
	return condition != nil && condition.ObservedGeneration == generation
}

// rollbackTarget is the revision to roll back to; 0 when there is none, or when it is what
// is deployed.
func rollbackTarget(plan Plan, s releasev1alpha1.ReleaseStatus) int64 {
	good := lastGood(plan, s)
	if record := plan.Observed.Record; record == nil || int64(record.Revision) <= good {
		return 0
	}
	return good
}

// lastGood is the last revision that was healthy; 0 when there is none, or when its
// record cannot be relied on. A record that says deployed or superseded is not enough:
// its workload may never have been healthy.
func lastGood(plan Plan, s releasev1alpha1.ReleaseStatus) int64 {
	if !plan.Observed.Verifies(int(s.LastGoodRevision)) {
		return 0
	}
	return s.LastGoodRevision
}

// reportRemedy reports that failed attempts were remediated, and returns the blockers with
// that.
func reportRemedy(s *subject, chosen remedy, blockers []Blocker) []Blocker {
	if chosen.reason == "" {
		if !chosen.keep {
			s.Conditions().Remove(releasev1alpha1.ConditionRemediated)
		}
		return blockers
	}
	message := chosen.message
	if failed := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionFailed); failed != nil {
		message += ". The last failure: " + failed.Message
	}
	s.Conditions().Set(releasev1alpha1.ConditionRemediated, metav1.ConditionTrue, chosen.reason, message)
	s.Conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, chosen.reason, message)
	// A pass that acted has reported the same before.
	blockers = slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return b.Reason == chosen.reason })
	return append(blockers, Blocker{Reason: chosen.reason, Message: message, Stalled: true})
}

// reportLate reports a revision that did not become healthy in time, and counts it once.
func reportLate(s *subject, f Facts, found health) {
	s.setFailedAction(recordLate(s.status, f))
	s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, releasev1alpha1.ReasonHealthTimeout, found.late)
}
