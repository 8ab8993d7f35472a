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
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// health is the result of spec.waitForReady for the deployed revision.
type health struct {
	// judged says that the deployed revision is the newest one, so its health counts.
	judged bool
	// late says why the revision did not become healthy in time; empty otherwise.
	late string
	// podsRefused says that a quota or admission refuses pods of the revision.
	podsRefused bool
	// timeLeft is the time that the revision has left; 0 if it has no deadline.
	timeLeft time.Duration
}

// judgeHealth decides whether the deployed revision became healthy in time, if the policy
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
	if len(plan.Observed.Unobserved) > 0 && !summary.Failed {
		return health{} // Objects that nobody can see are no fault of the revision.
	}
	timeout := Timeout(f.Desired.Policy)
	if left := record.Changed.Add(timeout).Sub(f.Now); left > 0 && !record.Unhealthy {
		return health{judged: true, timeLeft: left}
	}
	return health{
		judged: true, podsRefused: summary.PodsRefused,
		late: fmt.Sprintf("Revision %d is not healthy after %s: %s", revision, timeout, f.Desired.Redactor.Text(summary.Message)),
	}
}

// keepsRevision reports whether the newest revision is the desired one. Drift of its
// objects does not matter: uncorrected drift must not prevent the judgement of the
// revision.
func keepsRevision(action helm.Action) bool {
	return action == helm.ActionNone || action == helm.ActionRepair
}

// strategy is what happens to a release after failed attempts.
type strategy int

const (
	// retry makes another attempt. It also stands for no failure.
	retry strategy = iota
	// rollBack brings back the last good revision.
	rollBack
	// leave changes nothing.
	leave
)

// chooseStrategy decides by the failures of the desired state. lastGood is the last good
// revision; 0 for none.
func chooseStrategy(spec *releasev1alpha1.Remediation, failures releasev1alpha1.FailureCounts, lastGood int64) strategy {
	switch {
	case spec == nil || !failures.Terminal && failures.Consecutive <= retries(spec):
		return retry
	case spec.Strategy != releasev1alpha1.RemediationNone && lastGood > 0:
		return rollBack
	default:
		return leave
	}
}

// The pauses between attempts at a change that was given up. Such attempts follow a failure that may
// end without a change of the inputs. An attempt that left no revision has changed nothing: the chart
// did not render, or an object has another owner. Any other attempt may have changed objects, and a
// rollback may have restored them.
const (
	firstPause, longestPause                 = 10 * time.Second, 5 * time.Minute
	firstRevisionPause, longestRevisionPause = time.Minute, 30 * time.Minute
)

// pauseAfter returns the pause before the next attempt at a change that was given up. The pause
// doubles with each failed attempt. It is 0 if retries are left.
func pauseAfter(spec *releasev1alpha1.Remediation, failures releasev1alpha1.FailureCounts, madeRevision bool) time.Duration {
	if chooseStrategy(spec, failures, 0) == retry {
		return 0
	}
	attempts := failures.Consecutive
	if !failures.Terminal {
		attempts -= retries(spec)
	}
	if madeRevision {
		return controller.Doubled(firstRevisionPause, longestRevisionPause, attempts-1)
	}
	return controller.Doubled(firstPause, longestPause, attempts-1)
}

// retryAt returns the time of the next attempt. Many objects may have failed at the same time.
func retryAt(f Facts, pause time.Duration) *metav1.Time {
	at := metav1.NewTime(f.Now.Add(controller.Jitter(pause))).Rfc3339Copy()
	return &at
}

// waitFor returns the time until the next attempt at a change that was given up; 0 if the attempt is
// due, or if none follows. A time that no pause reaches comes from a clock that was ahead, so the attempt
// is due.
func waitFor(failures releasev1alpha1.FailureCounts, now time.Time) (wait time.Duration, due bool) {
	if failures.RetryAt == nil {
		return 0, false
	}
	if wait = failures.RetryAt.Sub(now); wait <= 0 || wait > 2*longestRevisionPause {
		return 0, true
	}
	return wait, false
}

// afterwards says what leads to the next attempt at a change that was given up.
func afterwards(failures releasev1alpha1.FailureCounts) string {
	if failures.RetryAt == nil {
		return "; a change of the spec starts afresh"
	}
	return fmt.Sprintf("; the next attempt is at %s, or after a change of the spec", failures.RetryAt.UTC().Format(time.RFC3339))
}

// remedy is the reaction to exhausted retries.
type remedy struct {
	plan Plan
	// wait is the time until the next attempt at a change that was given up; 0 if none follows.
	wait time.Duration
	// reason and message say that a user must act; empty otherwise.
	reason, message string
	// keep says that the result is unknown now, so the condition stays as it is.
	keep bool
}

// remediate returns a rollback or a held plan if the retries are exhausted. A held plan
// waits until an input changes, or until the next attempt is due. A rollback that failed gives way to
// the desired revision: after a pause, or at once if retries are left again.
func remediate(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) remedy {
	failures, chosen := currentFailures(f, s), retry
	wait, due := waitFor(failures, f.Now)
	due = due || differs(storedFailures(s).Capabilities, f.Capabilities)
	if plan.Next.RolledBack && due {
		return remedy{plan: plan.tryAgain(), keep: true}
	}
	if plan.Next.RolledBack {
		return remedy{
			plan: plan, wait: wait, reason: releasev1alpha1.ReasonRolledBack,
			message: fmt.Sprintf("Rolled back to revision %d", plan.Observed.Record.RolledBackTo) + afterwards(failures),
		}
	}
	if !f.Desired.Known && isCurrent(s, releasev1alpha1.ConditionRemediated, f.Generation) {
		return remedy{plan: plan, keep: true}
	}
	if plan.RollsOut() {
		chosen = chooseStrategy(f.Desired.Policy.Remediation, failures, rollbackTarget(plan, s))
	}
	if chosen == retry && plan.Next.Action == helm.ActionRollback && failures.Action == releasev1alpha1.HistoryRollback {
		return remedy{plan: plan.giveWay()} // The engine would repeat a rollback that it began.
	}
	if chosen != retry && due && !plan.isUnhealthy() {
		return remedy{plan: plan.tryAgain(), keep: true}
	}
	switch chosen {
	case rollBack:
		return remedy{plan: plan.next(helm.Decision{
			Action: helm.ActionRollback, Cause: helm.CauseFailed, To: int(rollbackTarget(plan, s)),
		}), wait: wait, keep: true}
	case leave:
		plan = plan.hold()
		plan.Next = helm.Decision{Action: helm.ActionNone}
		return remedy{
			plan: plan, wait: wait, reason: releasev1alpha1.ReasonRetriesExhausted, message: gaveUp(failures) + afterwards(failures),
		}
	case retry:
	}
	return remedy{plan: plan}
}

// gaveUp says after how many attempts the retries ended, and why if some were left.
func gaveUp(failures releasev1alpha1.FailureCounts) string {
	attempts := "attempts"
	if failures.Consecutive == 1 {
		attempts = "attempt"
	}
	message := fmt.Sprintf("Gave up after %d failed %s", failures.Consecutive, attempts)
	if failures.Terminal && failures.RetryAt == nil {
		message += ", because a retry cannot succeed"
	}
	return message
}

// isCurrent reports whether a condition of the type exists for the generation.
func isCurrent(s releasev1alpha1.ReleaseStatus, conditionType string, generation int64) bool {
	condition := meta.FindStatusCondition(s.Conditions, conditionType)
	return condition != nil && condition.ObservedGeneration == generation
}

// rollbackTarget is the revision to roll back to; 0 without such a revision, or if it is deployed
// already.
func rollbackTarget(plan Plan, s releasev1alpha1.ReleaseStatus) int64 {
	good := lastGood(plan, s)
	if record := plan.Observed.Record; record == nil || int64(record.Revision) <= good {
		return 0
	}
	return good
}

// lastGood is the last healthy revision; 0 without a healthy revision, or if its record is not
// trusted. A record with the status deployed or superseded is not enough: its workload may never
// have been healthy.
func lastGood(plan Plan, s releasev1alpha1.ReleaseStatus) int64 {
	if !plan.Observed.Verifies(int(s.LastGoodRevision)) {
		return 0
	}
	return s.LastGoodRevision
}

// reportRemedy reports the remediation, and returns the blockers including it.
func reportRemedy(s *subject, f Facts, chosen remedy, blockers []Blocker) []Blocker {
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
	s.reportNotDeployed(f, chosen.reason, message)
	// A pass that acted has added the same blocker before.
	blockers = slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return b.Reason == chosen.reason })
	return append(blockers, Blocker{Reason: chosen.reason, Message: message, Stalled: true})
}

// reportLate reports a revision that did not become healthy in time, and counts it once.
func reportLate(s *subject, f Facts, found health) {
	s.setFailedAction(recordLate(s.status, f, found.podsRefused))
	s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, releasev1alpha1.ReasonHealthTimeout, found.late)
}
