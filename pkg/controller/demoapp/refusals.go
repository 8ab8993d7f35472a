// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is when a change that was refused is tried again although its
// inputs are the same: what refused it may be gone, and no event tells.
const refusedRetry = 5 * time.Minute

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

// rests reports whether the pass's change is not to be tried again now. The
// conditions then say again why, whatever they said in the meantime.
func (r *refusals) rests(p *pass) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.requested {
		delete(r.last, p.key())
		return false
	}
	if p.plan.Decision.Action == helm.ActionNone {
		if !p.plan.Withheld {
			// The release is as wanted: what was refused is wanted no more.
			delete(r.last, p.key())
		}
		return false
	}
	last, ok := r.last[p.key()]
	if !ok || last.attempt != attemptOf(p) || !p.now.Before(last.until) {
		return false
	}
	p.next = min(p.next, last.until.Sub(p.now))
	p.conditions().MarkStalled(last.reason, last.message)
	return true
}

// note remembers that the pass's attempt was refused and why, and returns when
// to try it again.
func (r *refusals) note(p *pass, reason, message string) time.Duration {
	wait := controller.Jitter(refusedRetry)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[cache.ObjectName]refusal{}
	}
	r.last[p.key()] = refusal{attempt: attemptOf(p), until: p.now.Add(wait), reason: reason, message: message}
	return wait
}

func (r *refusals) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
