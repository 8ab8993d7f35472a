// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Limits bound a rollout.
type Limits struct {
	// Active is the maximum number of active objects; 0 means no limit. While objects of
	// other namespaces wait or are due, half of it is the maximum for one namespace.
	Active int
	// Failed is the number of failed objects that halts the rollout in their namespace,
	// and the number of namespaces with failed objects that halts it everywhere. 0 means
	// no limit.
	Failed int
}

// share is the maximum number of active objects of one namespace while other namespaces wait.
func (l Limits) share() int { return (l.Active + 1) / 2 }

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
	// FailedElsewhere is Failed for an object that another process handles. It halts the rollout like
	// Failed, and is not part of the counts.
	FailedElsewhere
)

// Answer says whether an object may begin.
type Answer int

const (
	// Granted means that the object may begin. It is active now.
	Granted Answer = iota
	// Queued means that the object waits. It is woken when it may begin.
	Queued
	// Halted means that the rollout is halted everywhere and the object waits. It is woken
	// when the rollout has resumed and the object may begin.
	Halted
	// HaltedNamespace is Halted for the namespace of the object alone.
	HaltedNamespace
)

// Counts are the numbers of objects by state.
type Counts = controller.RolloutCounts

// Queue tracks the objects of a rollout.
type Queue struct {
	limits Limits
	wake   func(cache.ObjectName)
	notify func(cache.ObjectName)

	mu         sync.Mutex
	namespaces map[string]*namespace
	counts     [states]int
	// held is the number of places that are held. The share is the most that counts for
	// one namespace.
	held int
	// waiting and failing are the numbers of namespaces with objects that are due or wait,
	// and with failed objects.
	waiting, failing int
	// turns is the number of times that a queued object became active.
	turns int
	// halted reports whether the last notification was of a halt everywhere.
	halted bool
}

// NewQueue returns an empty queue. It calls wake when a queued object may begin; the
// object is then active. It calls notify for each waiting object when the rollout is
// halted or resumed. Neither function may call the queue.
func NewQueue(limits Limits, wake, notify func(cache.ObjectName)) *Queue {
	return &Queue{limits: limits, wake: wake, notify: notify, namespaces: map[string]*namespace{}}
}

// SetActive sets Limits.Active. Objects that are active stay so.
func (q *Queue) SetActive(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if limit == q.limits.Active {
		return
	}
	before := q.limits.share()
	q.limits.Active = limit
	after := q.limits.share()
	for _, n := range q.namespaces {
		q.held += min(n.counts[active], after) - min(n.counts[active], before)
	}
	q.advance(cache.ObjectName{})
}

// Ask decides whether an object may begin. Queued objects of a namespace begin in the
// order of since. Ties are broken by name.
func (q *Queue) Ask(key cache.ObjectName, since time.Time) Answer {
	defer q.lock(key)()
	m := q.find(key)
	switch {
	case m == nil || m.state == due || m.state == failed || m.state == elsewhere || m.state == blocked:
		m = q.put(&member{key: key, since: since}, queued)
	case m.state == active:
		m.woken = false
	}
	// Objects that are earlier in line begin first.
	q.advance(key)
	if m.state == active {
		return Granted
	}
	return q.answer(q.namespaces[key.Namespace])
}

// Block records an object that waits for another gate. The object has no place
// in line, but is notified when the rollout is halted or resumed. Block returns
// Queued, Halted or HaltedNamespace.
func (q *Queue) Block(key cache.ObjectName) Answer {
	defer q.lock(key)()
	if m := q.find(key); m == nil || m.state != blocked {
		q.put(&member{key: key}, blocked)
	}
	return q.answer(q.namespaces[key.Namespace])
}

// Set sets the standing of an object. An object that is Due keeps waiting if it waits.
// Otherwise, it is removed from the queue.
func (q *Queue) Set(key cache.ObjectName, standing Standing) {
	defer q.lock(key)()
	m := q.find(key)
	switch {
	case standing == Active:
		q.put(&member{key: key}, active)
	case standing == Failed:
		q.put(&member{key: key}, failed)
	case standing == FailedElsewhere:
		q.put(&member{key: key}, elsewhere)
	case standing == Due && m != nil && (m.waits() || m.state == due):
	default:
		q.remove(key)
	}
}

// MarkUnknown records that the standing of an object is not known. An object that was woken
// and has not called Ask since is then no longer active.
func (q *Queue) MarkUnknown(key cache.ObjectName) {
	defer q.lock(key)()
	if m := q.find(key); m != nil && m.woken {
		q.remove(key)
	}
}

// Recall sets the standing of an object that the queue does not hold, or that another process
// handled. It reports whether it added an object that is active or failed.
func (q *Queue) Recall(key cache.ObjectName, standing Standing) bool {
	defer q.lock(key)()
	if m := q.find(key); m != nil && m.state != elsewhere {
		return false
	}
	if standing == Settled {
		q.remove(key)
		return false
	}
	q.put(&member{key: key}, map[Standing]state{Due: due, Active: active, Failed: failed}[standing])
	return standing != Due
}

// Counts returns the numbers of objects by state.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Counts{Queued: q.counts[queued], Active: q.counts[active], Failed: q.counts[failed], Halted: q.halted}
}

// lock locks the queue for an operation on key. The returned function advances the lines,
// notifies waiting objects, and unlocks the queue.
func (q *Queue) lock(key cache.ObjectName) (unlock func()) {
	q.mu.Lock()
	return func() {
		defer q.mu.Unlock()
		q.advance(key)
		q.notifyHalt(key)
	}
}

// find returns the member with the key; nil for an unknown key.
func (q *Queue) find(key cache.ObjectName) *member {
	if n, ok := q.namespaces[key.Namespace]; ok {
		return n.members[key.Name]
	}
	return nil
}

// put adds a member with this state, in place of the one with the same key.
func (q *Queue) put(m *member, s state) *member {
	q.remove(m.key)
	n, ok := q.namespaces[m.key.Namespace]
	if !ok {
		n = &namespace{members: map[string]*member{}, notified: Queued}
		q.namespaces[m.key.Namespace] = n
	}
	m.state = s
	n.members[m.key.Name] = m
	if s == queued {
		heap.Push(&n.line, m)
	}
	q.count(n, s, 1)
	return m
}

func (q *Queue) remove(key cache.ObjectName) {
	m := q.find(key)
	if m == nil {
		return
	}
	n := q.namespaces[key.Namespace]
	if m.state == queued {
		heap.Remove(&n.line, m.index)
	}
	q.count(n, m.state, -1)
	if delete(n.members, key.Name); len(n.members) == 0 {
		delete(q.namespaces, key.Namespace)
	}
}

// count changes the number of members of a namespace with this state.
func (q *Queue) count(n *namespace, s state, by int) {
	weigh := func(sign int) {
		q.held += sign * min(n.counts[active], q.limits.share())
		q.waiting += sign * min(n.pending(), 1)
		q.failing += sign * min(n.failures(), 1)
	}
	weigh(-1)
	n.counts[s] += by
	q.counts[s] += by
	weigh(1)
}

// answer returns the answer for a waiting object of the namespace.
func (q *Queue) answer(n *namespace) Answer {
	switch limit := q.limits.Failed; {
	case limit == 0:
		return Queued
	case q.failing >= limit:
		return Halted
	case n.failures() >= limit:
		return HaltedNamespace
	default:
		return Queued
	}
}

// advance makes queued objects active, up to the limits. It does not wake the caller,
// because Ask returns the answer to the caller.
func (q *Queue) advance(caller cache.ObjectName) {
	for next := q.next(); next != nil; next = q.next() {
		n := q.namespaces[next.key.Namespace]
		heap.Remove(&n.line, next.index)
		q.count(n, queued, -1)
		next.state = active
		q.count(n, active, 1)
		q.turns++
		n.turn = q.turns
		if next.key != caller {
			next.woken = true
			q.wake(next.key)
		}
	}
}

// next returns the queued object that may begin; nil if no object may begin.
func (q *Queue) next() *member {
	if q.counts[queued] == 0 || q.limits.Active > 0 && q.held >= q.limits.Active {
		return nil
	}
	var found *namespace
	for _, n := range q.namespaces {
		if len(n.line) > 0 && q.answer(n) == Queued && q.hasPlace(n) && (found == nil || n.precedes(found)) {
			found = n
		}
	}
	if found == nil {
		return nil
	}
	return found.line[0]
}

// hasPlace reports whether another object of a namespace with queued objects may be
// active. A namespace has more than its share only while no other namespace waits.
func (q *Queue) hasPlace(n *namespace) bool {
	if q.limits.Active == 0 || n.counts[active] < q.limits.share() {
		return true
	}
	return q.waiting == 1 && q.counts[active] < q.limits.Active
}

// notifyHalt notifies the waiting objects if the rollout was halted or resumed. It does not
// notify the caller. Only a halt everywhere concerns other namespaces than the caller's.
func (q *Queue) notifyHalt(caller cache.ObjectName) {
	if halted := q.limits.Failed > 0 && q.failing >= q.limits.Failed; halted != q.halted {
		q.halted = halted
		for _, n := range q.namespaces {
			q.notifyNamespace(n, caller)
		}
	} else if n, ok := q.namespaces[caller.Namespace]; ok {
		q.notifyNamespace(n, caller)
	}
}

func (q *Queue) notifyNamespace(n *namespace, caller cache.ObjectName) {
	answer := q.answer(n)
	if answer == n.notified {
		return
	}
	n.notified = answer
	for _, m := range n.members {
		if m.waits() && m.key != caller {
			q.notify(m.key)
		}
	}
}

// namespace has the members of one namespace.
type namespace struct {
	members map[string]*member
	line    line
	counts  [states]int
	// turn is the number of the last turn of the namespace; 0 for none.
	turn int
	// notified is the answer that the last notification was about.
	notified Answer
}

// pending is the number of members that are due or wait.
func (n *namespace) pending() int { return n.counts[due] + n.counts[queued] + n.counts[blocked] }

// failures is the number of members for which the change failed.
func (n *namespace) failures() int { return n.counts[failed] + n.counts[elsewhere] }

// precedes reports whether the next turn belongs to n rather than to other. Both have
// queued members. The namespace with the fewest active members comes first. Ties are broken
// by the last turn, and then by the age of the first in line.
func (n *namespace) precedes(other *namespace) bool {
	switch {
	case n.counts[active] != other.counts[active]:
		return n.counts[active] < other.counts[active]
	case n.turn != other.turn:
		return n.turn < other.turn
	default:
		return n.line[0].precedes(other.line[0])
	}
}

// state is the state of a member.
type state int

const (
	// due is Due without a question so far.
	due state = iota
	// queued members are in line. Members that another gate blocks are not.
	queued
	blocked
	active
	failed
	elsewhere
	// states is the number of states.
	states
)

// member is an object of the rollout.
type member struct {
	key   cache.ObjectName
	state state
	since time.Time
	// woken says that the member is active and has not called Ask since it was woken.
	woken bool
	// index is the index in the line, while the member is queued.
	index int
}

func (m *member) waits() bool { return m.state == queued || m.state == blocked }

func (m *member) precedes(other *member) bool {
	switch {
	case !m.since.Equal(other.since):
		return m.since.Before(other.since)
	case m.key.Namespace != other.key.Namespace:
		return m.key.Namespace < other.key.Namespace
	default:
		return m.key.Name < other.key.Name
	}
}

// line is a heap of queued members. The member at index 0 is the first in line.
type line []*member

// Len implements heap.Interface.
func (l line) Len() int { return len(l) }

// Less implements heap.Interface.
func (l line) Less(i, j int) bool { return l[i].precedes(l[j]) }

// Swap implements heap.Interface.
func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push implements heap.Interface.
func (l *line) Push(item any) {
	m := item.(*member)
	m.index = len(*l)
	*l = append(*l, m)
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	last := len(*l) - 1
	m := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return m
}
