// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"container/list"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// turns is the storage of a workqueue. It hands out keys fairly by namespace. It implements
// workqueue.Queue.
//
// The keys are handed out in rounds. In a round, each tenant with waiting keys has one turn, in the
// order of arrival. Between two turns of a tenant, every other tenant therefore has at most one
// turn.
//
// The tenant of a key is its namespace. Cluster-scoped keys have no namespace in common, so
// each of them is its own tenant.
//
// A tenant whose namespace has used its share of the workers has no turn until a pass of the
// namespace ends. It keeps its place. See [shares].
//
// The workqueue serializes all calls.
type turns struct {
	clock  clock.PassiveClock
	shares *shares
	// waited is called with the waiting time of each turn.
	waited func(time.Duration)

	round   int
	count   int
	tenants map[cache.ObjectName]*tenant
	// now are the tenants that have a turn in this round. next are the tenants with keys that had
	// their turn in this round. Both are lists of *tenant.
	now, next *list.List
}

// tenant has the waiting keys of a namespace, or one cluster-scoped key.
type tenant struct {
	namespace string
	// keys are the waiting keys, as cache.ObjectName.
	keys *list.List
	// since is when the wait for the next turn began.
	since time.Time
	// served is the round in which the tenant had its last turn.
	served int
	// in is the list that has the tenant as the element at; nil for none.
	in *list.List
	at *list.Element
}

func newTurns(clock clock.PassiveClock, shares *shares, waited func(time.Duration)) *turns {
	return &turns{clock: clock, shares: shares, waited: waited, round: 1, tenants: map[cache.ObjectName]*tenant{}, now: list.New(), next: list.New()}
}

// tenantOf returns the identity of a key's tenant.
func tenantOf(key cache.ObjectName) cache.ObjectName {
	if key.Namespace == "" {
		return key
	}
	return cache.ObjectName{Namespace: key.Namespace}
}

// Len implements workqueue.Queue. It returns 0 if no tenant may have a turn, so that workers wait.
func (t *turns) Len() int {
	if t.first(t.now) == nil && t.first(t.next) == nil {
		return 0
	}
	return t.count
}

// first returns the first tenant of a list that may have a turn; nil for none. It checks each
// cluster-scoped key that waits. Only users with rights in the whole cluster create such objects.
func (t *turns) first(in *list.List) *tenant {
	for at := in.Front(); at != nil; at = at.Next() {
		if owner := at.Value.(*tenant); t.shares.mayStart(owner.namespace) { //nolint:forcetypeassert // See turns.now.
			return owner
		}
	}
	return nil
}

// Push implements workqueue.Queue.
func (t *turns) Push(key cache.ObjectName) {
	if t.count == 0 {
		t.begin()
	}
	t.count++
	id := tenantOf(key)
	owner, ok := t.tenants[id]
	if !ok {
		owner = &tenant{namespace: key.Namespace, keys: list.New()}
		t.tenants[id] = owner
	}
	if owner.keys.Len() == 0 {
		owner.since = t.clock.Now()
	}
	owner.keys.PushBack(key)
	t.place(owner)
}

// Touch implements workqueue.Queue. A waiting key keeps its place.
func (t *turns) Touch(cache.ObjectName) {}

// Pop implements workqueue.Queue. It must not be called while Len returns 0. It counts the key as a
// pass in flight.
func (t *turns) Pop() cache.ObjectName {
	owner := t.first(t.now)
	if owner == nil {
		t.begin()
		owner = t.first(t.now)
	}
	t.count--
	t.shares.start(owner.namespace)
	key := owner.keys.Remove(owner.keys.Front()).(cache.ObjectName) //nolint:forcetypeassert // See tenant.keys.
	owner.served = t.round
	now := t.clock.Now()
	t.waited(now.Sub(owner.since))
	owner.since = now
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

// place puts a tenant into the list where it belongs. It keeps its place in that list.
func (t *turns) place(owner *tenant) {
	var in *list.List
	switch {
	case owner.keys.Len() == 0:
	case owner.served == t.round:
		in = t.next
	default:
		in = t.now
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
