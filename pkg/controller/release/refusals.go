// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is the longest delay after which a refused change with the same inputs is retried.
// Its obstacle may be gone, and no event reports that.
const refusedRetry = 5 * time.Minute

// conflictInterval is how often a conflicting object is checked. A user who deletes the
// object waits for less than a minute.
const conflictInterval = 45 * time.Second

// refusal records a refused attempt, or a takeover that waits for consent. It is repeated only after a
// change of the spec or the inputs, after new drift, after a request, or after a delay. A restart repeats
// each attempt once.
type refusal struct {
	blocker Blocker
	attempt attempt
	until   time.Time
	// conflict names the conflicting object; nil for none. nextCheck is the time of
	// its next check.
	conflict  *helm.OwnershipConflictError
	nextCheck time.Time
}

// next is the time of the next check or retry.
func (r refusal) next() time.Time {
	if r.conflict != nil && r.nextCheck.Before(r.until) {
		return r.nextCheck
	}
	return r.until
}

// isOf reports whether the refusal is of the attempt. A refused change is repeated after new
// drift, because a user may have deleted the object that was refused. The drift that was
// there at the refusal is no reason, and neither is the end of drift.
func (r refusal) isOf(a attempt) bool {
	if a.drifts == "" {
		a.drifts = r.attempt.drifts
	}
	if differs(r.attempt.capabilities, a.capabilities) {
		return false
	}
	a.capabilities = r.attempt.capabilities
	return r.attempt == a
}

// attempt identifies a change or a repair of a release. Equal attempts are refused for the
// same reason.
type attempt struct {
	uid        types.UID
	generation int64
	action     helm.Action
	inputs     string
	drifts     string
	// record identifies the newest record of another client.
	record string
	// capabilities are Facts.Capabilities.
	capabilities string
}

func attemptOf(f Facts, plan Plan) attempt {
	decision := plan.Decision
	a := attempt{
		uid: f.UID, capabilities: f.Capabilities, generation: f.Generation, action: decision.Action, inputs: attemptInputs(f) + f.InputVersion,
		drifts: Names(decision.Drifts),
	}
	if rollsOut(decision.Action) {
		a.drifts = Names(plan.Observed.Drifts)
	}
	if record := plan.Observed.Record; record != nil && !record.Own {
		a.record = fmt.Sprint(record.Revision, record.Status, record.Changed)
	}
	if plan.Withheld && plan.Observed.Record != nil {
		// While a change is withheld, the attempt keeps the deployed release, whatever
		// was refused.
		a.inputs = plan.Observed.Record.Inputs
	}
	return a
}

// holdRefused leaves out an action that was refused and is not to be retried now. The refusal
// is then a blocker, and a refused change is held: the deployed release is still kept as it
// is. The conflicting object is checked periodically, because no event reports its deletion.
func (l *Lifecycle) holdRefused(ctx context.Context, s *subject, f Facts, found assessment) assessment {
	last, ok := l.currentRefusal(f, found.plan)
	if !ok || found.plan.GivenUp {
		return found
	}
	action := found.plan.Decision.Action
	if last.conflict != nil && !f.Now.Before(last.nextCheck) {
		seen, err := l.engine.InTheWay(ctx, f.Desired.Release, last.conflict.Object)
		switch {
		case err != nil:
			klog.FromContext(ctx).V(1).Info("Cannot check the conflicting object", "target", last.conflict.Object.String(), "err", err)
		case seen != last.conflict.Seen:
			return found
		}
		last.nextCheck = f.Now.Add(controller.Jitter(conflictInterval))
		l.refusalsOf(action).Set(f.Key, last)
	}
	s.RequeueAfter(last.next().Sub(f.Now))
	found.blockers = append(slices.Clone(found.blockers), last.blocker)
	if rollsOut(action) {
		found.plan = found.plan.hold()
	} else {
		found.plan.Decision = helm.Decision{Action: helm.ActionNone}
	}
	return found
}

// refusalsOf returns the refusals of changes, or the refusals of actions that only keep the
// deployed release.
func (l *Lifecycle) refusalsOf(action helm.Action) *controller.Memory[refusal] {
	if rollsOut(action) {
		return &l.refusedChanges
	}
	return &l.refusedRepairs
}

// currentRefusal returns the refusal of the same attempt. It returns none if the attempt differs or
// its retry is due. Refusals are forgotten if a user requests a pass, or if nothing is to be done.
func (l *Lifecycle) currentRefusal(f Facts, plan Plan) (refusal, bool) {
	action := plan.Decision.Action
	isDone := action == helm.ActionNone
	if f.Requested || isDone {
		l.refusedRepairs.Forget(f.Key)
	}
	if f.Requested || isDone && !plan.Withheld {
		l.refusedChanges.Forget(f.Key)
	}
	if f.Requested || isDone {
		return refusal{}, false
	}
	last, ok := l.refusalsOf(action).Get(f.Key)
	if last.blocker.Reason == releasev1alpha1.ReasonTakeoverHeld && f.Reason.Has(controller.Drift) {
		return refusal{}, false // Nothing says which object has changed, before the release is taken over.
	}
	return last, ok && last.isOf(attemptOf(f, plan)) && f.Now.Before(last.until)
}

// noteRefusal records the refusal of an attempt. Until the retry, the status shows the blocker. It
// returns the delay until the next check or retry.
func (l *Lifecycle) noteRefusal(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus, blocker Blocker, cause error) time.Duration {
	pause := refusedRetry
	if rollsOut(plan.Decision.Action) && isError[*helm.ClusterReadError](cause) {
		pause = controller.Doubled(firstPause, refusedRetry, currentFailures(f, s).Consecutive-1)
	}
	last := refusal{attempt: attemptOf(f, plan), until: f.Now.Add(controller.Jitter(pause)), blocker: blocker}
	var conflict *helm.OwnershipConflictError
	if errors.As(cause, &conflict) && conflict.Seen != "" {
		last.conflict, last.nextCheck = conflict, f.Now.Add(controller.Jitter(conflictInterval))
	}
	l.refusalsOf(plan.Decision.Action).Set(f.Key, last)
	return last.next().Sub(f.Now)
}
