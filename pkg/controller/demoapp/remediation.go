// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// defaultRetries is the API's, for objects that were stored before the field had
// a default.
const defaultRetries = 3

// remedy is what becomes of a release whose attempts fail.
type remedy int

const (
	// retry: another attempt, or nothing has failed.
	retry remedy = iota
	// rollBack: bring back the last good revision.
	rollBack
	// leave: touch nothing until the spec changes.
	leave
)

// chooseRemedy decides by what has failed so far. The last good revision is 0
// when there is none.
func chooseRemedy(spec *releasev1alpha1.Remediation, failed int64, lastGood int64) remedy {
	switch {
	case spec == nil || failed <= orDefault(spec.Retries, defaultRetries):
		return retry
	case spec.Strategy != releasev1alpha1.RemediationNone && lastGood > 0:
		return rollBack
	default:
		return leave
	}
}

// remediate deals with attempts that have failed as often as they may: it turns
// the plan into a rollback, or holds it until the spec changes.
func (c *Controller) remediate(p *pass) {
	if p.plan.Wanted.RolledBack {
		// Nothing is left to do; the conditions say again why, whatever they said in
		// the meantime.
		p.remediated(releasev1alpha1.ReasonRolledBack,
			fmt.Sprintf("Rolled back to revision %d; a change of the spec starts afresh", p.plan.Observed.Record.RolledBackTo))
		return
	}
	if p.wanted == nil && isCurrent(p, releasev1alpha1.ConditionRemediated) {
		return // Whether what was given up is still what is wanted will show.
	}
	failed := currentFailures(p).Consecutive
	chosen := retry
	if p.plan.RollsOut() {
		chosen = chooseRemedy(p.app.Spec.Remediation, failed, rollbackTarget(p))
	}
	switch chosen {
	case retry:
		p.conditions().Remove(releasev1alpha1.ConditionRemediated)
	case rollBack:
		p.plan.Wanted = helm.Decision{Action: helm.ActionRollback, Cause: helm.CauseFailed, To: int(rollbackTarget(p))}
		p.plan.Decision = p.plan.Wanted
	case leave:
		p.plan.Hold()
		p.plan.Wanted = helm.Decision{Action: helm.ActionNone}
		p.remediated(releasev1alpha1.ReasonRetriesExhausted,
			fmt.Sprintf("Gave up after %d failed attempts; a change of the spec starts afresh", failed))
	}
}

// isCurrent reports whether there is a condition of the type that speaks of the spec
// as it is.
func isCurrent(p *pass, conditionType string) bool {
	condition := meta.FindStatusCondition(p.app.Status.Conditions, conditionType)
	return condition != nil && condition.ObservedGeneration == p.app.Generation
}

// rollbackTarget is the revision to go back to; 0 when there is none, or when it is what
// is deployed.
func rollbackTarget(p *pass) int64 {
	good := lastGood(p)
	if record := p.plan.Observed.Record; record == nil || int64(record.Revision) <= good {
		return 0
	}
	return good
}

// lastGood is the last revision that was healthy; 0 when there is none, or when its
// record cannot be relied on. A record that says deployed or superseded is not enough:
// its workload may never have been healthy.
func lastGood(p *pass) int64 {
	good := p.app.Status.LastGoodRevision
	if !p.plan.Observed.Verifies(int(good)) {
		return 0
	}
	return good
}

// remediated says that failed attempts were dealt with, and that a person has to
// go on from here.
func (p *pass) remediated(reason, message string) {
	if failed := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionFailed); failed != nil {
		message += ". The last failure: " + failed.Message
	}
	p.conditions().Set(releasev1alpha1.ConditionRemediated, metav1.ConditionTrue, reason, message)
	p.conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, reason, message)
	p.blockers = slices.DeleteFunc(p.blockers, func(b blocker) bool { return b.reason == reason }) // It was the same before a repair.
	p.blockers = append(p.blockers, blocker{reason: reason, message: message, stalled: true})
}

// awaitHealth holds the app to spec.waitForReady: a new revision that is not
// healthy in time has failed, and is tried again as remediation says.
func (c *Controller) awaitHealth(p *pass) {
	s := &p.app.Status
	if s.DeployedRelease == nil || p.plan.Wanted.RolledBack || !p.plan.Observed.BaselineKnown || !keepsRevision(p.plan.Wanted.Action) {
		return
	}
	p.judged = true
	revision, record := s.DeployedRelease.Revision, p.plan.Observed.Record
	health := release.Summarize(p.plan.Observed.Health)
	if s.LastGoodRevision == revision || health.Healthy || !p.app.Spec.WaitForReady {
		return
	}
	timeout := timeoutOf(p.app.Spec)
	if left := record.Changed.Add(timeout).Sub(p.now); left > 0 && !record.Unhealthy {
		p.next = min(p.next, left)
		return
	}
	p.unhealthy = fmt.Sprintf("Revision %d is not healthy after %s: %s", revision, timeout, p.redact(health.Message))
	recordUnhealthy(p, revision)
	p.conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, releasev1alpha1.ReasonHealthTimeout, p.unhealthy)
	if p.app.Spec.Remediation != nil {
		p.plan.Wanted = helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed}
		p.plan.Decision = p.plan.Wanted
	}
}

// willRetry reports whether the deployed revision was not healthy in time and another
// is to follow.
func (p *pass) willRetry() bool { return p.unhealthy != "" && p.plan.RollsOut() && !p.plan.Withheld }

// countFailure writes down that a revision was not healthy in time before the next one
// is made: their number is bounded also when the process ends in between. A rollback
// ends the row by what its record tells.
func (c *Controller) countFailure(ctx context.Context, p *pass) error {
	if !p.willRetry() || p.plan.Decision.Action == helm.ActionRollback {
		return nil
	}
	p.catchUp(apimeta.ReasonProgressing, p.unhealthy)
	return c.commit(ctx, p)
}

// markHealth has the release's history say what awaitHealth found: a revision that was
// not healthy in time is failed, until it is healthy after all.
func (c *Controller) markHealth(ctx context.Context, p *pass) error {
	record := p.plan.Observed.Record
	if !p.judged || p.plan.Suspended || record.Unhealthy == (p.unhealthy != "") {
		return nil
	}
	if record.Unhealthy {
		return c.engine.MarkDeployed(ctx, c.releaseOf(p.app), baselineOf(p.app), record.Revision, "Not counted as failed any more")
	}
	return c.engine.MarkFailed(ctx, c.releaseOf(p.app), baselineOf(p.app), record.Revision, p.redact(p.unhealthy))
}

// keepsRevision reports whether the newest revision is the one that is wanted, be it
// that objects of it have drifted: drift that is left as it is must not keep the
// revision from being judged.
func keepsRevision(action helm.Action) bool {
	return action == helm.ActionNone || action == helm.ActionRepair
}

// timeoutOf is how long an operation on the release may take, and its workload
// to become healthy.
func timeoutOf(spec v1alpha1.DemoAppSpec) time.Duration {
	if spec.Timeout == nil {
		return helm.DefaultTimeout
	}
	return spec.Timeout.Duration
}

// maxHistoryOf is how many revisions are kept: as many as the spec says, and
// those that remediation may need to find the way back.
func maxHistoryOf(spec v1alpha1.DemoAppSpec) int {
	kept := orDefault(spec.MaxHistory, helm.DefaultMaxHistory)
	if spec.WaitForReady && spec.Remediation != nil {
		kept = max(kept, orDefault(spec.Remediation.Retries, defaultRetries)+2)
	}
	return int(kept)
}
