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
// pass may wait. Trying again helps.
var ErrTooManyWaiting = errors.New("too many passes wait for hooks")

// namespaceShare is the part of Options.MaxWaiting that the objects of one
// namespace may use: one tenant must not use up what all share.
const namespaceShare = 2

// ReleaseWorker lets another object be reconciled while the pass that has the
// context waits for something slow. The pass stays in flight: its object is not
// reconciled twice at a time, and a shutdown waits for it. The caller waits, and
// then calls reclaim, which returns once a worker is free again.
//
// The error wraps [ErrTooManyWaiting] when Options.MaxWaiting passes wait
// already, or half as many in one namespace. The caller must not wait then.
// Outside of a pass nothing is released. A pass releases its worker from one
// goroutine at a time.
func ReleaseWorker(ctx context.Context) (reclaim func(), err error) {
	p, ok := ctx.Value(placeKey{}).(*place)
	if !ok {
		return func() {}, nil
	}
	return p.release()
}

type placeKey struct{}

// places are what bounds the number of passes that work at a time. A pass that
// waits gives its place to another one, as a goroutine in a system call does in
// Go's scheduler.
type places struct {
	taken chan struct{}
	limit int

	mu         sync.Mutex
	waiting    int
	namespaces map[string]int
}

func newPlaces(count, limit int) *places {
	return &places{taken: make(chan struct{}, count), limit: limit, namespaces: map[string]int{}}
}

// take returns when there is a place.
func (s *places) take() { s.taken <- struct{}{} }

// giveBack frees a place.
func (s *places) giveBack() { <-s.taken }

// beginWait counts a pass that is about to wait.
func (s *places) beginWait(namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := max(s.limit/namespaceShare, 1)
	switch {
	case s.waiting >= s.limit:
		return fmt.Errorf("%w: at most %d at a time", ErrTooManyWaiting, s.limit)
	case s.namespaces[namespace] >= share:
		return fmt.Errorf("%w in namespace %s: at most %d at a time", ErrTooManyWaiting, namespace, share)
	}
	s.waiting++
	s.namespaces[namespace]++
	return nil
}

func (s *places) endWait(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if s.namespaces[namespace]--; s.namespaces[namespace] == 0 {
		delete(s.namespaces, namespace)
	}
}

// place is that of one pass.
type place struct {
	*places

	key cache.ObjectName
	// left is called when the pass begins to wait, and returned when it goes on.
	left, returned func()
	// replace starts the worker that takes the place of this pass's worker for
	// good; replaced says that it did.
	replace  func()
	replaced bool
	// reclaim takes the place again; nil while the pass has it.
	reclaim func()
}

func (p *place) release() (reclaim func(), err error) {
	if p.reclaim != nil {
		return nil, errors.New("the pass has released its worker already")
	}
	if err := p.beginWait(p.key.Namespace); err != nil {
		return nil, err
	}
	p.left()
	p.giveBack()
	if !p.replaced {
		p.replaced = true
		p.replace()
	}
	p.reclaim = sync.OnceFunc(func() {
		p.take()
		p.endWait(p.key.Namespace)
		p.returned()
		p.reclaim = nil
	})
	return p.reclaim, nil
}

// leave ends the pass, which has its place again even if a panic kept it from
// reclaiming that.
func (p *place) leave() {
	if p.reclaim != nil {
		p.reclaim()
	}
	p.giveBack()
}
