// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// ErrTooManyWaiting is wrapped by the error of [ReleaseWorker] when no further
// pass may wait. A retry resolves it.
var ErrTooManyWaiting = errors.New("too many passes wait")

// ReleaseWorker frees the worker of the pass with this context for another object.
// A pass calls it before it waits for something slow. The caller then waits and
// calls reclaim, which returns when a worker is free. The pass stays in flight
// meanwhile: its object starts no second pass, and a shutdown waits for the pass.
//
// The error wraps [ErrTooManyWaiting] if the namespace has as many waiting passes as it leaves of
// [MaxWaiting] to other namespaces. The caller must not wait then. One pass of a namespace may
// always wait.
//
// Outside of a pass, ReleaseWorker does nothing. A pass must call it from one
// goroutine at a time.
func ReleaseWorker(ctx context.Context) (reclaim func(), err error) {
	s, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return func() {}, nil
	}
	return s.release()
}

// Stop returns the context that ends when the process is about to stop. A pass that has changed
// nothing yet may then end early. Outside of a pass, the context does not end.
func Stop(ctx context.Context) context.Context {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		return s.stop
	}
	return context.Background()
}

// IsInterrupted reports whether a pass ended early because the process stops, see [Stop].
func IsInterrupted(ctx context.Context, err error) bool {
	return Stop(ctx).Err() != nil && errors.Is(err, context.Canceled)
}

type slotKey struct{}

// slots bounds the number of passes of each lane that run at a time. A pass that waits frees its
// slot for another pass.
type slots struct {
	taken [lanes]chan struct{}

	mu         sync.Mutex
	waiting    int
	namespaces map[string]int
}

func newSlots(counts [lanes]int) *slots {
	s := &slots{namespaces: map[string]int{}}
	for l, count := range counts {
		s.taken[l] = make(chan struct{}, count)
	}
	return s
}

// take waits for a free slot of a lane and takes it.
func (s *slots) take(l lane) { s.taken[l] <- struct{}{} }

// free frees a slot of a lane.
func (s *slots) free(l lane) { <-s.taken[l] }

// beginWait counts a pass that is about to wait, or returns an error if the limit is reached.
func (s *slots) beginWait(namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := max(1, MaxWaiting-s.waiting); s.namespaces[namespace] >= most {
		return fmt.Errorf("%w in namespace %q: at most %d at a time, because %d of %d wait in all namespaces",
			ErrTooManyWaiting, namespace, most, s.waiting, MaxWaiting)
	}
	s.waiting++
	s.namespaces[namespace]++
	return nil
}

func (s *slots) endWait(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if s.namespaces[namespace]--; s.namespaces[namespace] == 0 {
		delete(s.namespaces, namespace)
	}
}

// slot is the slot of one pass. A pass without a slot does not keep other objects from a worker.
type slot struct {
	*slots

	queue *queue
	stop  context.Context
	lane  lane
	key   cache.ObjectName
	// generation is the generation of the object, see [LogGeneration].
	generation int64
	// onWait is called when the pass begins to wait, and onResume when the wait ends.
	onWait, onResume func()
	// replaceWorker starts another worker. The worker of this pass ends with the pass.
	replaceWorker func()
	// reclaim takes the slot again. It is nil unless the pass waits in ReleaseWorker.
	reclaim func()

	state sync.Mutex
	// held says that the pass has the slot. slow frees the slot of a slow pass.
	held bool
	slow *time.Timer
	// replaced is true after replaceWorker was called.
	replaced bool
}

// hold records that the pass has the slot from now on, at most for slowPass.
func (s *slot) hold() {
	s.state.Lock()
	defer s.state.Unlock()
	s.held = true
	s.slow = time.AfterFunc(slowPass, s.yield)
}

// yield frees the slot if the pass has it, and lets another worker look for a key.
func (s *slot) yield() {
	s.state.Lock()
	defer s.state.Unlock()
	s.slow.Stop()
	if !s.held {
		return
	}
	s.held = false
	s.free(s.lane)
	if s.replaced {
		s.queue.wake(s.lane)
		return
	}
	s.replaced = true
	s.replaceWorker()
}

func (s *slot) release() (reclaim func(), err error) {
	if s.reclaim != nil {
		return nil, errors.New("the pass has released its worker already")
	}
	if err := s.beginWait(s.key.Namespace); err != nil {
		return nil, err
	}
	s.onWait()
	s.queue.shares[s.lane].end(s.key.Namespace)
	s.yield()
	s.queue.wake(s.lane) // A slow pass has yielded before, and its namespace may start another one now.
	s.reclaim = sync.OnceFunc(func() {
		s.take(s.lane)
		s.queue.shares[s.lane].start(s.key.Namespace)
		s.hold()
		s.endWait(s.key.Namespace)
		s.onResume()
		s.reclaim = nil
	})
	return s.reclaim, nil
}

// close frees the slot at the end of the pass, and reports whether the worker was replaced. After a
// panic, it reclaims the slot first.
func (s *slot) close() (replaced bool) {
	if s.reclaim != nil {
		s.reclaim()
	}
	s.state.Lock()
	defer s.state.Unlock()
	s.slow.Stop()
	if s.held {
		s.held = false
		s.free(s.lane)
	}
	return s.replaced
}
