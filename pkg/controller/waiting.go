// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// ErrTooManyWaiting is wrapped by the error of [ReleaseWorker] when no further
// pass may wait. A retry resolves it.
var ErrTooManyWaiting = errors.New("too many passes wait")

// namespaceShare divides MaxWaiting for the objects of one namespace, so
// that one tenant does not use the whole limit.
const namespaceShare = 2

// ReleaseWorker frees the worker of the pass with this context for another object.
// A pass calls it before it waits for something slow. The caller then waits and
// calls reclaim, which returns when a worker is free. The pass stays in flight
// meanwhile: its object starts no second pass, and a shutdown waits for the pass.
//
// The error wraps [ErrTooManyWaiting] if [MaxWaiting] passes wait already, or
// half as many in the same namespace. The caller must not wait then.
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
	const share = MaxWaiting / namespaceShare
	switch {
	case s.waiting >= MaxWaiting:
		return fmt.Errorf("%w: at most %d at a time", ErrTooManyWaiting, MaxWaiting)
	case s.namespaces[namespace] >= share:
		return fmt.Errorf("%w in namespace %s: at most %d at a time", ErrTooManyWaiting, namespace, share)
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

// slot is the slot of one pass.
type slot struct {
	*slots

	lane lane
	key  cache.ObjectName
	// generation is the generation of the object, see [LogGeneration].
	generation int64
	// onWait is called when the pass begins to wait, and onResume when the wait ends.
	onWait, onResume func()
	// replaceWorker starts another worker. The worker of this pass ends with the pass.
	replaceWorker func()
	// replaced is true after replaceWorker was called.
	replaced bool
	// reclaim takes the slot again. It is nil while the pass has the slot.
	reclaim func()
}

func (s *slot) release() (reclaim func(), err error) {
	if s.reclaim != nil {
		return nil, errors.New("the pass has released its worker already")
	}
	if err := s.beginWait(s.key.Namespace); err != nil {
		return nil, err
	}
	s.onWait()
	s.free(s.lane)
	if !s.replaced {
		s.replaced = true
		s.replaceWorker()
	}
	s.reclaim = sync.OnceFunc(func() {
		s.take(s.lane)
		s.endWait(s.key.Namespace)
		s.onResume()
		s.reclaim = nil
	})
	return s.reclaim, nil
}

// close frees the slot at the end of the pass. After a panic, it reclaims the slot
// first.
func (s *slot) close() {
	if s.reclaim != nil {
		s.reclaim()
	}
	s.free(s.lane)
}
