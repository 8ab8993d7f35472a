// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// smallReasons are the causes of passes that usually need few requests. Such a pass does not
// wait behind installs.
const smallReasons = Drift | HealthChange

// isSmall reports whether all causes are small.
func isSmall(due Reason) bool { return due != 0 && due&^smallReasons == 0 }

// maxSmallTurns is the number of small keys that a tenant's other keys wait for at most.
const maxSmallTurns = 3

// turns is the storage of a workqueue. It hands out keys fairly by namespace, and keys with
// small reasons first. It implements workqueue.Queue.
//
// The keys are handed out in rounds. In a round, each tenant with waiting keys has one turn: first
// the tenants with small keys, then the remaining tenants, each group in the order of arrival.
// Between two turns of a tenant, every other tenant therefore has at most two turns, and one turn
// while no key is small. A tenant hands out its small keys first, but after maxSmallTurns small
// keys, it hands out another key.
//
// The tenant of a key is its namespace. Cluster-scoped keys have no namespace in common, so
// each of them is its own tenant.
//
// Except for setSmall, the workqueue serializes all calls.
type turns struct {
	clock clock.PassiveClock
	// waited is called with the waiting time of each turn.
	waited func(time.Duration)

	round   int
	tenants map[cache.ObjectName]*tenant
	keys    map[cache.ObjectName]*waitingTurn
	// now are the tenants that have a turn in this round, those with small keys in now[small].
	// next are the tenants with keys that had their turn in this round. All are lists of
	// *tenant.
	now  [lanes]*list.List
	next *list.List

	mu sync.Mutex
	// small are the keys whose reasons are all small.
	small map[cache.ObjectName]struct{}
}

// lane is one of the two lines of a tenant.
type lane int

const (
	small lane = iota
	large
	lanes
)

// tenant has the waiting keys of a namespace, or one cluster-scoped key.
type tenant struct {
	// keys are the waiting keys by lane, as lists of cache.ObjectName.
	keys [lanes]*list.List
	// since is when the wait for the next turn began.
	since time.Time
	// served is the round in which the tenant had its last turn.
	served int
	// smallTurns is the number of small keys in a row that the tenant handed out.
	smallTurns int
	// in is the list that has the tenant as the element at; nil for none.
	in *list.List
	at *list.Element
}

// waitingTurn is the place of a waiting key.
type waitingTurn struct {
	lane lane
	at   *list.Element
}

func newTurns(clock clock.PassiveClock, waited func(time.Duration)) *turns {
	t := &turns{
		clock: clock, waited: waited, round: 1, next: list.New(),
		tenants: map[cache.ObjectName]*tenant{}, keys: map[cache.ObjectName]*waitingTurn{}, small: map[cache.ObjectName]struct{}{},
	}
	for lane := range t.now {
		t.now[lane] = list.New()
	}
	return t
}

// tenantOf returns the identity of a key's tenant.
func tenantOf(key cache.ObjectName) cache.ObjectName {
	if key.Namespace == "" {
		return key
	}
	return cache.ObjectName{Namespace: key.Namespace}
}

// setSmall records whether the reasons of a key are all small. Call it before the key is added
// to the workqueue. Pop forgets it.
func (t *turns) setSmall(key cache.ObjectName, isSmall bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isSmall {
		t.small[key] = struct{}{}
	} else {
		delete(t.small, key)
	}
}

func (t *turns) laneOf(key cache.ObjectName) lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.small[key]; ok {
		return small
	}
	return large
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return len(t.keys) }

// Push implements workqueue.Queue.
func (t *turns) Push(key cache.ObjectName) {
	if len(t.keys) == 0 {
		t.begin()
	}
	id := tenantOf(key)
	owner, ok := t.tenants[id]
	if !ok {
		owner = &tenant{keys: [lanes]*list.List{list.New(), list.New()}}
		t.tenants[id] = owner
	}
	if owner.isEmpty() {
		owner.since = t.clock.Now()
	}
	lane := t.laneOf(key)
	t.keys[key] = &waitingTurn{lane: lane, at: owner.keys[lane].PushBack(key)}
	t.place(owner)
}

// Touch implements workqueue.Queue. It moves a waiting key whose reasons have changed to the
// end of the other lane.
func (t *turns) Touch(key cache.ObjectName) {
	waiting, lane := t.keys[key], t.laneOf(key)
	if waiting == nil || waiting.lane == lane {
		return
	}
	owner := t.tenants[tenantOf(key)]
	owner.keys[waiting.lane].Remove(waiting.at)
	waiting.lane, waiting.at = lane, owner.keys[lane].PushBack(key)
	t.place(owner)
}

// Pop implements workqueue.Queue. It must not be called while the storage is empty.
func (t *turns) Pop() cache.ObjectName {
	owner := t.nextTenant()
	lane := owner.nextLane()
	key := owner.keys[lane].Remove(owner.keys[lane].Front()).(cache.ObjectName) //nolint:forcetypeassert // See tenant.keys.
	owner.served = t.round
	now := t.clock.Now()
	t.waited(now.Sub(owner.since))
	owner.since = now
	delete(t.keys, key)
	t.setSmall(key, false)
	t.place(owner)
	return key
}

// begin begins a round. A tenant without keys is kept until then, so that it has no second
// turn in the round.
func (t *turns) begin() {
	t.round++
	for t.next.Len() > 0 {
		t.place(t.next.Front().Value.(*tenant)) //nolint:forcetypeassert // See turns.next.
	}
	for id, tenant := range t.tenants {
		if tenant.in == nil {
			delete(t.tenants, id)
		}
	}
}

// nextTenant returns the tenant that has the next turn.
func (t *turns) nextTenant() *tenant {
	if t.now[small].Len() == 0 && t.now[large].Len() == 0 {
		t.begin()
	}
	first := t.now[small].Front()
	if first == nil {
		first = t.now[large].Front()
	}
	return first.Value.(*tenant) //nolint:forcetypeassert // See turns.now.
}

// place puts a tenant into the list where it belongs. It keeps its place in that list.
func (t *turns) place(owner *tenant) {
	var in *list.List
	switch {
	case owner.isEmpty():
	case owner.served == t.round:
		in = t.next
	case owner.keys[small].Len() > 0:
		in = t.now[small]
	default:
		in = t.now[large]
	}
	if in == owner.in {
		return
	}
	if owner.in != nil {
		owner.in.Remove(owner.at)
	}
	if owner.in = in; in != nil {
		owner.at = in.PushBack(owner)
	}
}

// isEmpty reports whether no key waits.
func (t *tenant) isEmpty() bool { return t.keys[small].Len()+t.keys[large].Len() == 0 }

// nextLane returns the lane of the tenant's next key. It counts the turns of small keys.
func (t *tenant) nextLane() lane {
	if t.keys[small].Len() == 0 || t.smallTurns >= maxSmallTurns && t.keys[large].Len() > 0 {
		t.smallTurns = 0
		return large
	}
	t.smallTurns++
	return small
}
