// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is when a change that was refused is tried again although its
// inputs are the same: what refused it may be gone, and no event tells.
const refusedRetry = 5 * time.Minute

// conflictLook is how often an object in the way of a release is looked at: somebody
// who deletes it waits for less than a minute.
const conflictLook = 45 * time.Second

// refusals remembers which attempts were refused, so that nothing but another
// spec, other inputs, a request, or time brings about the next. After a restart there is
// one.
type refusals struct {
	mu   sync.Mutex
	last map[cache.ObjectName]refusal
}

type refusal struct {
	reason, message string
	attempt         attempt
	until           time.Time
	// conflict names the object that was in the way, and look is when to look at it
	// next; nil where none was.
	conflict *helm.OwnershipConflictError
	look     time.Time
}

// next is when something is due.
func (r refusal) next() time.Time {
	if r.conflict != nil && r.look.Before(r.until) {
		return r.look
	}
	return r.until
}

// attempt is what makes one change of a release another one than the last.
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
		// What is deployed is kept meanwhile, whatever was refused.
		a.inputs = plan.Observed.Record.Inputs
	}
	return a
}

// restsRefused reports whether the change is not to be tried again now. The conditions
// then repeat why, whatever they said in the meantime. The object that was in the way of a
// release is looked at from time to time, because no event tells that it is gone.
func (l *Lifecycle) restsRefused(ctx context.Context, s *subject, f Facts, plan Plan) bool {
	last, ok := l.refusals.current(f, plan)
	if !ok {
		return false
	}
	if last.conflict != nil && !f.Now.Before(last.look) {
		seen, err := l.engine.InTheWay(ctx, last.conflict.Object)
		switch {
		case err != nil:
			klog.FromContext(ctx).V(1).Info("Cannot look at the object in the way", "object", last.conflict.Object.String(), "err", err)
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

// current is the refusal that the change has met before; none when the change is another
// one, or when it is time to try again.
func (r *refusals) current(f Facts, plan Plan) (refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Requested {
		delete(r.last, f.Key)
		return refusal{}, false
	}
	if plan.Decision.Action == helm.ActionNone {
		if !plan.Withheld {
			// The release is as desired: what was refused is desired no more.
			delete(r.last, f.Key)
		}
		return refusal{}, false
	}
	last, ok := r.last[f.Key]
	return last, ok && last.attempt == attemptOf(f, plan) && f.Now.Before(last.until)
}

// note remembers that the attempt was refused with an error, whose text is what the status
// says, and returns when something is due about it.
func (r *refusals) note(f Facts, plan Plan, reason string, cause error) time.Duration {
	last := refusal{
		attempt: attemptOf(f, plan), until: f.Now.Add(controller.Jitter(refusedRetry)), reason: reason, message: cause.Error(),
	}
	var conflict *helm.OwnershipConflictError
	if errors.As(cause, &conflict) && conflict.Seen != "" {
		last.conflict, last.look = conflict, f.Now.Add(controller.Jitter(conflictLook))
	}
	r.set(f.Key, last)
	return last.next().Sub(f.Now)
}

func (r *refusals) set(key cache.ObjectName, last refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[cache.ObjectName]refusal{}
	}
	r.last[key] = last
}

func (r *refusals) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
