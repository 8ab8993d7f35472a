// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Limits bound a rollout.
type Limits struct {
	// Active is the maximum number of active objects; 0 means no limit.
	Active int
	// Failed is the number of failed objects that halts the rollout; 0 means no limit.
	Failed int
}

// Standing is the state of an object in the rollout.
type Standing int

const (
	// Settled means that the object has adopted the change, or is not affected by it.
	Settled Standing = iota
	// Due means that the object has not adopted the change yet.
	Due
	// Active means that the object has begun to adopt the change, and the outcome is not known yet.
	Active
	// Failed means that the change failed for the object.
	Failed
)

// Answer says whether an object may begin.
type Answer int

const (
	// Granted means that the object may begin. It is active now.
	Granted Answer = iota
	// Queued means that the object waits. It is woken when it may begin.
	Queued
	// Halted means that the rollout is halted and the object waits. It is woken when the
	// rollout has resumed and the object may begin.
	Halted
)

// Counts are the numbers of objects by state.
type Counts struct {
	Queued, Active, Failed int
}

// Queue tracks the objects of a rollout.
type Queue struct {
	limits Limits
	wake   func(cache.ObjectName)
	notify func(cache.ObjectName)

	mu     sync.Mutex
	active map[cache.ObjectName]struct{}
	failed map[cache.ObjectName]struct{}
	// woken are the active objects that have not called Ask since they were woken.
	woken map[cache.ObjectName]struct{}
	// waiting are the objects in line and the objects that stand aside.
	waiting map[cache.ObjectName]*ticket
	line    line
	// halted reports whether the last notification was of a halt.
	halted bool
}

// NewQueue returns an empty queue. It calls wake when a queued object may begin; the
// object is then active. It calls notify for each waiting object when the rollout is
// halted or resumed. Neither function may call the queue.
func NewQueue(limits Limits, wake, notify func(cache.ObjectName)) *Queue {
	return &Queue{
		limits: limits, wake: wake, notify: notify,
		active:  map[cache.ObjectName]struct{}{},
		failed:  map[cache.ObjectName]struct{}{},
		woken:   map[cache.ObjectName]struct{}{},
		waiting: map[cache.ObjectName]*ticket{},
	}
}

// Ask decides whether an object may begin. Queued objects begin in the order of
// since. Ties are broken by namespace and name. The queue keeps the inputs for
// [Queue.Asked].
func (q *Queue) Ask(key cache.ObjectName, since time.Time, inputs string) Answer {
	defer q.lock()()
	if _, ok := q.active[key]; ok {
		delete(q.woken, key)
		return Granted
	}
	t, waits := q.waiting[key]
	if !waits || t.index < 0 {
		q.remove(key)
		t = &ticket{key: key, since: since, inputs: inputs, index: -1}
		q.waiting[key] = t
		heap.Push(&q.line, t)
	}
	// Objects that are earlier in line begin first.
	q.advance(key)
	switch _, granted := q.active[key]; {
	case granted:
		return Granted
	case q.isHalted():
		return Halted
	default:
		return Queued
	}
}

// Asked returns the inputs with which a waiting object entered the queue.
func (q *Queue) Asked(key cache.ObjectName) (inputs string, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.waiting[key]
	if !ok {
		return "", false
	}
	return t.inputs, true
}

// StandAside records an object that waits for another gate. The object has no place
// in line, but is notified when the rollout is halted or resumed. StandAside reports
// whether the rollout is halted.
func (q *Queue) StandAside(key cache.ObjectName, inputs string) (halted bool) {
	defer q.lock()()
	if t, waits := q.waiting[key]; !waits || t.index >= 0 {
		q.remove(key)
		q.waiting[key] = &ticket{key: key, inputs: inputs, index: -1}
	}
	return q.isHalted()
}

// Set sets the standing of an object. A waiting object that is Due keeps waiting. Any
// other object that is Due is removed from the queue.
func (q *Queue) Set(key cache.ObjectName, standing Standing) {
	defer q.lock()()
	if _, waits := q.waiting[key]; waits && standing == Due {
		return
	}
	q.remove(key)
	q.put(key, standing)
}

// Miss records that the standing of an object is not known. An object that was woken
// and has not called Ask since is then no longer active.
func (q *Queue) Miss(key cache.ObjectName) {
	defer q.lock()()
	if _, woken := q.woken[key]; woken {
		q.remove(key)
	}
}

// Recall sets the standing of an object that the queue does not hold. It reports
// whether it added the object.
func (q *Queue) Recall(key cache.ObjectName, standing Standing) bool {
	defer q.lock()()
	_, active := q.active[key]
	_, failed := q.failed[key]
	_, waits := q.waiting[key]
	if active || failed || waits {
		return false
	}
	q.put(key, standing)
	return standing == Active || standing == Failed
}

// Counts returns the numbers of objects by state.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Counts{Queued: q.line.Len(), Active: len(q.active), Failed: len(q.failed)}
}

// lock locks the queue. The returned function advances the line and unlocks the queue.
func (q *Queue) lock() (unlock func()) {
	q.mu.Lock()
	return func() {
		q.advance(cache.ObjectName{})
		q.mu.Unlock()
	}
}

func (q *Queue) put(key cache.ObjectName, standing Standing) {
	switch standing {
	case Active:
		q.active[key] = struct{}{}
	case Failed:
		q.failed[key] = struct{}{}
	case Settled, Due:
	}
}

func (q *Queue) remove(key cache.ObjectName) {
	delete(q.active, key)
	delete(q.failed, key)
	delete(q.woken, key)
	if t, ok := q.waiting[key]; ok {
		if t.index >= 0 {
			heap.Remove(&q.line, t.index)
		}
		delete(q.waiting, key)
	}
}

func (q *Queue) isHalted() bool {
	return q.limits.Failed > 0 && len(q.failed) >= q.limits.Failed
}

// advance makes objects active, in the order of the line, up to the limits. It
// notifies the waiting objects if the rollout was halted or resumed. It neither wakes
// nor notifies the caller, because Ask returns the answer to the caller.
func (q *Queue) advance(caller cache.ObjectName) {
	for !q.isHalted() && q.line.Len() > 0 && (q.limits.Active == 0 || len(q.active) < q.limits.Active) {
		next := q.line[0].key
		q.remove(next)
		q.put(next, Active)
		if next != caller {
			q.woken[next] = struct{}{}
			q.wake(next)
		}
	}
	if halted := q.isHalted(); halted != q.halted {
		q.halted = halted
		for key := range q.waiting {
			if key != caller {
				q.notify(key)
			}
		}
	}
}

// ticket describes a waiting object.
type ticket struct {
	key    cache.ObjectName
	since  time.Time
	inputs string
	// index is the index in the heap, or -1 if the object stands aside.
	index int
}

// line is a heap of tickets. The ticket at index 0 is the first in line.
type line []*ticket

// Len implements heap.Interface.
func (l line) Len() int { return len(l) }

// Less implements heap.Interface.
func (l line) Less(i, j int) bool {
	a, b := l[i], l[j]
	switch {
	case !a.since.Equal(b.since):
		return a.since.Before(b.since)
	case a.key.Namespace != b.key.Namespace:
		return a.key.Namespace < b.key.Namespace
	default:
		return a.key.Name < b.key.Name
	}
}

// Swap implements heap.Interface.
func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push implements heap.Interface.
func (l *line) Push(item any) {
	t := item.(*ticket)
	t.index = len(*l)
	*l = append(*l, t)
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := len(*l) - 1
	t := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	t.index = -1
	return t
}
