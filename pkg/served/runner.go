// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Runner runs a set of targets, which may be replaced while it runs.
type Runner struct {
	follower *Follower
	mu       sync.Mutex
	updates  chan []Target
}

// NewRunner returns a runner without targets.
func NewRunner(follower *Follower) *Runner {
	return &Runner{follower: follower, updates: make(chan []Target, 1)}
}

// Update replaces the targets. A target that is no longer among them is stopped. A target
// whose Revision differs is stopped and started again. Group and kind must be unique. It does not
// block.
func (r *Runner) Update(targets []Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.updates: // Run has not seen the last update, which is out of date now.
	default:
	}
	r.updates <- targets
}

// running is a target that is followed. It has no name if it was stopped.
type running struct {
	name, revision string

	stop context.CancelFunc
	done chan struct{}
}

// Run follows the targets until stop or lead ends, and returns when all have ended. It
// returns nil when stop ends, and the cause when lead ends. A changed target starts when its
// predecessor has ended, and waits for no other.
func (r *Runner) Run(stop, lead context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	followed := map[schema.GroupKind]running{}
	for {
		select {
		case targets := <-r.updates:
			desired := map[schema.GroupKind]bool{}
			for _, target := range targets {
				kind := target.Kind.GroupKind()
				desired[kind] = true
				old, ok := followed[kind]
				if ok && old.name == target.Name && old.revision == target.Revision {
					continue
				}
				if ok {
					old.stop()
				}
				followed[kind] = r.start(stop, lead, target, old.done, &all)
			}
			for kind, old := range followed {
				if !desired[kind] {
					// It stays in the map, so that a successor waits for its end.
					old.stop()
					followed[kind] = running{stop: old.stop, done: old.done}
				}
			}
		case <-stop.Done():
			return nil
		case <-lead.Done():
			return context.Cause(lead)
		}
	}
}

// start follows a target after its predecessor has ended.
func (r *Runner) start(stop, lead context.Context, target Target, predecessor <-chan struct{}, all *sync.WaitGroup) running {
	ctx, cancel := context.WithCancel(stop)
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		defer cancel()
		if predecessor != nil {
			<-predecessor
		}
		r.follower.Follow(ctx, lead, target)
	})
	return running{name: target.Name, revision: target.Revision, stop: cancel, done: done}
}
