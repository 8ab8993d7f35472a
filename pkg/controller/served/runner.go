// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
)

// Runner runs a set of targets, which may be replaced while it runs.
type Runner struct {
	follower *Follower
	updates  chan []Target
}

// NewRunner returns a runner without targets.
func NewRunner(follower *Follower) *Runner {
	return &Runner{follower: follower, updates: make(chan []Target, 1)}
}

// Update replaces the targets. A target that is no longer among them is stopped. A target
// whose Revision differs is stopped and started again. Names must be unique. It does not
// block, and must not be called by two goroutines at a time.
func (r *Runner) Update(targets []Target) {
	select {
	case <-r.updates: // Run has not seen the last update, which is out of date now.
	default:
	}
	r.updates <- targets
}

// running is a target that is followed.
type running struct {
	revision string
	stop     context.CancelFunc
	done     chan struct{}
}

// Run follows the targets until stop or lead ends, and returns when all have ended. It
// returns nil when stop ends, and the cause when lead ends.
func (r *Runner) Run(stop, lead context.Context) error {
	followed := map[string]running{}
	defer end(followed, nil)
	for {
		select {
		case targets := <-r.updates:
			end(followed, targets)
			for _, target := range targets {
				if _, ok := followed[target.Name]; !ok {
					followed[target.Name] = r.start(stop, lead, target)
				}
			}
		case <-stop.Done():
			return nil
		case <-lead.Done():
			return context.Cause(lead)
		}
	}
}

func (r *Runner) start(stop, lead context.Context, target Target) running {
	ctx, cancel := context.WithCancel(stop)
	started := running{revision: target.Revision, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(started.done)
		r.follower.Follow(ctx, lead, target)
	}()
	return started
}

// end stops what is followed and not among the targets, and waits for its end.
func end(followed map[string]running, targets []Target) {
	keep := map[string]bool{}
	for _, target := range targets {
		old, ok := followed[target.Name]
		keep[target.Name] = ok && old.revision == target.Revision
	}
	for name, old := range followed {
		if !keep[name] {
			old.stop()
		}
	}
	for name, old := range followed {
		if !keep[name] {
			<-old.done
			delete(followed, name)
		}
	}
}
