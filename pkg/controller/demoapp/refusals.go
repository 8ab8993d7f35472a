// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is when a change that was refused is tried again although its
// inputs are the same: what refused it may be gone, and no event tells.
const refusedRetry = 5 * time.Minute

// refusals remembers which inputs were refused, so that nothing but other
// inputs, or time, brings about another attempt. After a restart there is one.
type refusals struct {
	mu   sync.Mutex
	last map[cache.ObjectName]refusal
}

type refusal struct {
	uid    types.UID
	inputs string
	until  time.Time
}

// rests returns how long the pass's change is not to be tried again; zero when
// it may be tried now.
func (r *refusals) rests(p *pass) time.Duration {
	if p.plan.Decision.Action == helm.ActionNone {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[p.key()]
	if !ok || last.uid != p.app.UID || last.inputs != p.inputs {
		return 0
	}
	return max(last.until.Sub(p.now), 0)
}

// note remembers that the pass's inputs were refused, and returns when to try
// them again.
func (r *refusals) note(p *pass) time.Duration {
	wait := controller.Jitter(refusedRetry)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[cache.ObjectName]refusal{}
	}
	r.last[p.key()] = refusal{uid: p.app.UID, inputs: p.inputs, until: p.now.Add(wait)}
	return wait
}

func (r *refusals) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
