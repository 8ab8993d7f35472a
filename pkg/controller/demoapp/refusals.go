// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
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

func attemptOf(p *pass) attempt {
	decision := p.plan.Decision
	a := attempt{
		uid: p.app.UID, generation: p.app.Generation, action: decision.Action, inputs: p.inputs, drifts: release.Names(decision.Drifts),
		adopts: adopts(p.app),
	}
	if p.plan.Withheld && p.plan.Observed.Record != nil {
		// What is deployed is kept meanwhile, whatever was refused.
		a.inputs = p.plan.Observed.Record.Inputs
	}
	return a
}

// restsRefused reports whether the pass's change is not to be tried again now. The
// conditions then say again why, whatever they said in the meantime. The object that
// was in the way of a release is looked at now and then, because no event tells that
// it is gone.
func (c *Controller) restsRefused(ctx context.Context, p *pass) bool {
	last, ok := c.refusals.current(p)
	if !ok {
		return false
	}
	if last.conflict != nil && !p.now.Before(last.look) {
		seen, err := c.engine.InTheWay(ctx, last.conflict.Object)
		switch {
		case err != nil:
			klog.FromContext(ctx).V(1).Info("Cannot look at the object in the way", "object", last.conflict.Object.String(), "err", err)
		case seen != last.conflict.Seen:
			return false
		}
		last.look = p.now.Add(controller.Jitter(conflictLook))
		c.refusals.set(p.key(), last)
	}
	p.next = min(p.next, last.next().Sub(p.now))
	p.conditions().MarkStalled(last.reason, last.message)
	return true
}

// current is the refusal that the pass's change has met before; none when the change
// is another one, or time to try again.
func (r *refusals) current(p *pass) (refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.requested {
		delete(r.last, p.key())
		return refusal{}, false
	}
	if p.plan.Decision.Action == helm.ActionNone {
		if !p.plan.Withheld {
			// The release is as wanted: what was refused is wanted no more.
			delete(r.last, p.key())
		}
		return refusal{}, false
	}
	last, ok := r.last[p.key()]
	return last, ok && last.attempt == attemptOf(p) && p.now.Before(last.until)
}

// note remembers that the pass's attempt was refused and why, and returns when
// something is due about it.
func (r *refusals) note(p *pass, reason, message string, cause error) time.Duration {
	last := refusal{attempt: attemptOf(p), until: p.now.Add(controller.Jitter(refusedRetry)), reason: reason, message: message}
	var conflict *helm.OwnershipConflictError
	if errors.As(cause, &conflict) && conflict.Seen != "" {
		last.conflict, last.look = conflict, p.now.Add(controller.Jitter(conflictLook))
	}
	r.set(p.key(), last)
	return last.next().Sub(p.now)
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
