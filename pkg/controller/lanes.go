// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// urgent are the reasons that overtake. What is broken, and what others wait
// for, should not stand behind a thousand first installs.
const urgent = Drift | DependencyReady

// maxOvertaking is how many urgent keys may be taken before one that is not,
// so that a flood of the former does not starve the latter.
const maxOvertaking = 4

// lanes is the order of the workqueue: first in, first out in two lanes. One
// worker is kept free for the fast one: what overtakes all that wait would still
// have to wait for one of those that are on their way. It implements
// workqueue.Queue, whose methods run under the workqueue's lock; its own lock is
// therefore the innermost.
type lanes struct {
	// room is how many keys of the slow lane may be on their way at a time.
	room int

	mu         sync.Mutex
	marked     sets.Set[cache.ObjectName]
	fast, slow []cache.ObjectName
	overtaking int
	// moved says that a key that did not count may count now, see Len.
	moved bool
	// onTheirWay are the keys of the slow lane that were popped and are not done.
	onTheirWay sets.Set[cache.ObjectName]
}

func newLanes(room int) *lanes {
	return &lanes{room: room, marked: sets.New[cache.ObjectName](), onTheirWay: sets.New[cache.ObjectName]()}
}

// mark puts key into the fast lane the next time it is added.
func (l *lanes) mark(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked.Insert(key)
}

// Touch implements workqueue.Queue: key is queued already and was added again.
func (l *lanes) Touch(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.marked.Has(key) {
		return
	}
	if i := slices.Index(l.slow, key); i >= 0 {
		l.slow = slices.Delete(l.slow, i, i+1)
		l.fast = append(l.fast, key)
		l.moved = true
	}
}

// takeMoved reports whether a key has changed lanes since the last call.
func (l *lanes) takeMoved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved := l.moved
	l.moved = false
	return moved
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marked.Has(key) {
		l.fast = append(l.fast, key)
	} else {
		l.slow = append(l.slow, key)
	}
}

// Len implements workqueue.Queue. Keys for which there is no room do not count:
// the worker that makes room comes back for them itself.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onTheirWay.Len() >= l.room {
		return len(l.fast)
	}
	return len(l.fast) + len(l.slow)
}

// Pop implements workqueue.Queue.
func (l *lanes) Pop() cache.ObjectName {
	l.mu.Lock()
	defer l.mu.Unlock()
	isSlow := len(l.slow) > 0 && l.onTheirWay.Len() < l.room
	lane := &l.slow
	if len(l.fast) > 0 && (!isSlow || l.overtaking < maxOvertaking) {
		lane = &l.fast
		l.overtaking++
	} else {
		l.overtaking = 0
	}
	key := (*lane)[0]
	*lane = (*lane)[1:]
	l.marked.Delete(key)
	if lane == &l.slow {
		l.onTheirWay.Insert(key)
	}
	return key
}

// done notes that key is about to be given back.
func (l *lanes) done(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onTheirWay.Delete(key)
}
