// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Limits bound a change.
type Limits struct {
	// Active is how many objects may be on their way at once; 0 is any number.
	Active int
	// Failed is the number of failed objects that halts the change; 0 is none.
	Failed int
}

// Standing is how an object does with the change.
type Standing int

const (
	// Settled means that it has the change, or has nothing to do with it.
	Settled Standing = iota
	// Due means that it does not have the change yet.
	Due
	// Active means that it has begun, and how it ends is not known yet.
	Active
	// Failed means that it has not come through.
	Failed
)

// Answer says whether an object may begin.
type Answer int

const (
	// Granted means that it may, and counts as active from now on.
	Granted Answer = iota
	// Queued means that it is woken when it is its turn.
	Queued
	// Halted means that nobody may, and it is woken when it is its turn after all.
	Halted
)

// Counts are how many objects are in each place.
type Counts struct {
	Queued, Active, Failed int
}

// Queue keeps account of the objects that a change concerns.
type Queue struct {
	limits Limits
	wake   func(cache.ObjectName)
	tell   func(cache.ObjectName)

	mu     sync.Mutex
	active map[cache.ObjectName]struct{}
	failed map[cache.ObjectName]struct{}
	// called are the active ones that were woken and have not been heard of since.
	called map[cache.ObjectName]struct{}
	// waiting are those that have asked in vain: in line, or aside.
	waiting map[cache.ObjectName]*ticket
	line    line
	// halted is what those that wait were last told.
	halted bool
}

// NewQueue returns an empty queue. It calls wake for an object whose turn it is,
// which counts as active from then on, and tell for each that waits when the
// change is halted or goes on. Neither may call the queue.
func NewQueue(limits Limits, wake, tell func(cache.ObjectName)) *Queue {
	return &Queue{
		limits: limits, wake: wake, tell: tell,
		active:  map[cache.ObjectName]struct{}{},
		failed:  map[cache.ObjectName]struct{}{},
		called:  map[cache.ObjectName]struct{}{},
		waiting: map[cache.ObjectName]*ticket{},
	}
}

// Ask asks whether an object may begin. Those that wait get their turn in the
// order of since, and of their names where that is equal. The inputs tell what
// it asks for, see [Queue.Asked].
func (q *Queue) Ask(key cache.ObjectName, since time.Time, inputs string) Answer {
	defer q.lock()()
	if _, ok := q.active[key]; ok {
		delete(q.called, key)
		return Granted
	}
	t, waits := q.waiting[key]
	if !waits || t.index < 0 {
		q.remove(key)
		t = &ticket{key: key, since: since, inputs: inputs, index: -1}
		q.waiting[key] = t
		heap.Push(&q.line, t)
	}
	// Whoever is first in line goes first, also before the one that asks.
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

// Asked returns what a waiting object asked for.
func (q *Queue) Asked(key cache.ObjectName) (inputs string, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok := q.waiting[key]
	if !ok {
		return "", false
	}
	return t.inputs, true
}

// StandAside notes that an object would ask if nothing else held it. It takes no
// turn, and is told when the change is halted or goes on. It reports whether the
// change is halted now.
func (q *Queue) StandAside(key cache.ObjectName, inputs string) (halted bool) {
	defer q.lock()()
	if t, waits := q.waiting[key]; !waits || t.index >= 0 {
		q.remove(key)
		q.waiting[key] = &ticket{key: key, inputs: inputs, index: -1}
	}
	return q.isHalted()
}

// Set puts an object where it belongs. One that is due stays in line, but has
// missed its turn if it had one.
func (q *Queue) Set(key cache.ObjectName, standing Standing) {
	defer q.lock()()
	if _, waits := q.waiting[key]; waits && standing == Due {
		return
	}
	q.remove(key)
	q.put(key, standing)
}

// Miss notes that an object could not tell where it belongs. It loses the turn
// that it was woken for.
func (q *Queue) Miss(key cache.ObjectName) {
	defer q.lock()()
	if _, called := q.called[key]; called {
		q.remove(key)
	}
}

// Recall puts an object that the queue does not know yet where it belongs, and
// reports whether it did.
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

// Counts returns how many objects are in each place.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Counts{Queued: q.line.Len(), Active: len(q.active), Failed: len(q.failed)}
}

// lock locks the queue and returns what unlocks it, after giving turns to those
// that have one now.
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
	delete(q.called, key)
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

// advance gives turns to the first in line as long as there are any, and tells
// the others when the change is halted or goes on. The one that asks is not
// woken: it gets its answer.
func (q *Queue) advance(asks cache.ObjectName) {
	for !q.isHalted() && q.line.Len() > 0 && (q.limits.Active == 0 || len(q.active) < q.limits.Active) {
		next := q.line[0].key
		q.remove(next)
		q.put(next, Active)
		if next != asks {
			q.called[next] = struct{}{}
			q.wake(next)
		}
	}
	if halted := q.isHalted(); halted != q.halted {
		q.halted = halted
		for key := range q.waiting {
			if key != asks {
				q.tell(key)
			}
		}
	}
}

// ticket is what is known of an object that waits.
type ticket struct {
	key    cache.ObjectName
	since  time.Time
	inputs string
	// index is the place in line; -1 for one that stands aside.
	index int
}

// line is a heap of tickets, the first in line on top.
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
