// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is the delay after which a refused change with the same inputs is retried.
// Its obstacle may be gone, and no event reports that.
const refusedRetry = 5 * time.Minute

// conflictLook is how often a conflicting object is checked. A user who deletes the
// object waits for less than a minute.
const conflictLook = 45 * time.Second

// refusal records refused attempts. An attempt is repeated only after a change of the
// spec or the inputs, after a request, or after a delay. A restart repeats each attempt
// once.
type refusal struct {
	reason, message string
	attempt         attempt
	until           time.Time
	// conflict names the conflicting object; nil for none. look is the time of its next
	// check.
	conflict *helm.OwnershipConflictError
	look     time.Time
}

// next is the time of the next check or retry.
func (r refusal) next() time.Time {
	if r.conflict != nil && r.look.Before(r.until) {
		return r.look
	}
	return r.until
}

// attempt identifies a change of a release. Equal attempts are refused for the same
// reason.
type attempt struct {
	uid        types.UID
	generation int64
	action     helm.Action
	inputs     string
	drifts     string
	adopts     bool
}

func attemptOf(f Facts, plan Plan) attempt {
	decision := plan.Decision
	a := attempt{
		uid: f.UID, generation: f.Generation, action: decision.Action, inputs: f.Digest, drifts: Names(decision.Drifts),
		adopts: f.Desired.Release.Adopt,
	}
	if plan.Withheld && plan.Observed.Record != nil {
		// While a change is withheld, the attempt keeps the deployed release, whatever
		// was refused.
		a.inputs = plan.Observed.Record.Inputs
	}
	return a
}

// restsRefused reports whether the change is not to be retried now. The conditions then
// repeat the refusal. The conflicting object is checked periodically, because no event
// reports its deletion.
func (l *Lifecycle) restsRefused(ctx context.Context, s *subject, f Facts, plan Plan) bool {
	last, ok := l.currentRefusal(f, plan)
	if !ok {
		return false
	}
	if last.conflict != nil && !f.Now.Before(last.look) {
		seen, err := l.engine.InTheWay(ctx, f.Desired.Release, last.conflict.Object)
		switch {
		case err != nil:
			klog.FromContext(ctx).V(1).Info("Cannot check the conflicting object", "target", last.conflict.Object.String(), "err", err)
		case seen != last.conflict.Seen:
			return false
		}
		last.look = f.Now.Add(controller.Jitter(conflictLook))
		l.refusals.set(f.Key, last)
	}
	s.LookAgain(last.next().Sub(f.Now))
	s.Conditions().MarkStalled(last.reason, last.message)
	return true
}

// currentRefusal returns the refusal of the same attempt. There is none if the attempt
// differs or its retry is due.
func (l *Lifecycle) currentRefusal(f Facts, plan Plan) (refusal, bool) {
	// A refused change is forgotten if a user requests a pass, or if the release is as desired.
	isDone := plan.Decision.Action == helm.ActionNone
	if f.Requested || isDone && !plan.Withheld {
		l.refusals.forget(f.Key)
		return refusal{}, false
	}
	last, ok := l.refusals.get(f.Key)
	return last, ok && !isDone && last.attempt == attemptOf(f, plan) && f.Now.Before(last.until)
}

// noteRefusal records the refusal of an attempt. The status shows the text of cause. It
// returns the delay until the next check or retry.
func (l *Lifecycle) noteRefusal(f Facts, plan Plan, reason string, cause error) time.Duration {
	last := refusal{
		attempt: attemptOf(f, plan), until: f.Now.Add(controller.Jitter(refusedRetry)), reason: reason, message: cause.Error(),
	}
	var conflict *helm.OwnershipConflictError
	if errors.As(cause, &conflict) && conflict.Seen != "" {
		last.conflict, last.look = conflict, f.Now.Add(controller.Jitter(conflictLook))
	}
	l.refusals.set(f.Key, last)
	return last.next().Sub(f.Now)
}
