// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"slices"
	"sync"
)

// slots bound the concurrent requests. A namespace uses at most half of the slots, so that
// slow answers for one tenant do not delay the requests of another. The zero value has no limit.
type slots struct {
	limit int

	mu   sync.Mutex
	used int
	// by is the number of used slots by namespace.
	by map[string]int
	// waiting are the requests that wait for a slot, in the order in which they came.
	waiting []*waiter
}

// waiter is a request that waits for a slot. granted is closed when it has one.
type waiter struct {
	namespace string
	granted   chan struct{}
}

func newSlots(limit int) *slots { return &slots{limit: limit, by: map[string]int{}} }

// acquire waits for a slot. It returns the error of ctx if the context ends first.
func (s *slots) acquire(ctx context.Context, namespace string) error {
	w := &waiter{namespace: namespace, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return ctx.Err()
	}
	return nil // The slot was granted at the same time.
}

// release frees a slot of the namespace.
func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.by[namespace]--; s.by[namespace] == 0 {
		delete(s.by, namespace)
	}
	s.grant()
}

// grant gives the free slots to waiting requests: to the namespaces with the fewest used
// slots first, and within the limit of a namespace.
func (s *slots) grant() {
	share := (s.limit + 1) / 2
	for s.limit == 0 || s.used < s.limit {
		next := -1
		for i, w := range s.waiting {
			if s.limit > 0 && s.by[w.namespace] >= share {
				continue
			}
			if next < 0 || s.by[w.namespace] < s.by[s.waiting[next].namespace] {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.used++
		s.by[w.namespace]++
		close(w.granted)
	}
}
