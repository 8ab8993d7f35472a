// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// testTurns is a storage whose waits are not measured.
func testTurns() *turns { return newTurns(clock.RealClock{}, newShares(1000), func(time.Duration) {}) }

// push adds keys of a namespace to the storage, as the workqueue does.
func push(t *turns, namespace string, names ...string) {
	for _, name := range names {
		t.Push(cache.NewObjectName(namespace, name))
	}
}

// pop takes this many keys out of the storage.
func pop(t *turns, count int) []string {
	var keys []string
	for range count {
		keys = append(keys, t.Pop().String())
	}
	return keys
}

// numbers returns the names 0 to count-1.
func numbers(count int) []string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

func wantKeys(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestNamespacesTakeTurns(t *testing.T) {
	turns := testTurns()
	push(turns, "a", numbers(300)...)
	wantKeys(t, pop(turns, 1), "a/0")
	push(turns, "b", "0", "1")
	push(turns, "c", "0")

	wantKeys(t, pop(turns, 7), "b/0", "c/0", "a/1", "b/1", "a/2", "a/3", "a/4")
}

// TestClusterScopedKeysAreTenants: cluster-scoped objects do not share the turn of one
// namespace.
func TestClusterScopedKeysAreTenants(t *testing.T) {
	turns := testTurns()
	push(turns, "a", numbers(3)...)
	push(turns, "", numbers(3)...)

	wantKeys(t, pop(turns, 6), "a/0", "0", "1", "2", "a/1", "a/2")
}

// TestTurnWait: a namespace that floods the queue waits for its turns as long as any other, however
// long its keys wait.
func TestTurnWait(t *testing.T) {
	clock, waits := clocktesting.NewFakeClock(time.Unix(0, 0)), []time.Duration{}
	turns := newTurns(clock, newShares(1000), func(waited time.Duration) { waits = append(waits, waited) })
	push(turns, "a", numbers(300)...)
	push(turns, "b", "0")
	for range 4 {
		clock.Step(time.Second)
		pop(turns, 1)
	}
	clock.Step(time.Hour)
	push(turns, "b", "1")
	clock.Step(time.Second)
	pop(turns, 1)

	want := []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, time.Second, time.Second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// TestTurnsAreFair checks the storage with random keys: it hands out each key once, and
// between two turns of a tenant that waits, every other tenant has at most one turn. It keeps
// nothing of tenants that are gone.
func TestTurnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns, waiting := testTurns(), map[cache.ObjectName]bool{}
		// since counts the turns of each tenant since the last turn of a waiting one.
		since := map[cache.ObjectName]map[cache.ObjectName]int{}
		waits := func(tenant cache.ObjectName) bool {
			for key := range waiting {
				if tenantOf(key) == tenant {
					return true
				}
			}
			return false
		}
		add := func(t *rapid.T) {
			key := cache.NewObjectName(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "namespace"), rapid.SampledFrom(numbers(5)).Draw(t, "name"))
			if waiting[key] {
				turns.Touch(key)
				return
			}
			if tenant := tenantOf(key); !waits(tenant) {
				since[tenant] = map[cache.ObjectName]int{}
			}
			waiting[key] = true
			turns.Push(key)
		}
		take := func(t *rapid.T) {
			if len(waiting) == 0 {
				t.Skip("no key waits")
			}
			key := turns.Pop()
			if !waiting[key] {
				t.Fatalf("%s does not wait", key)
			}
			delete(waiting, key)
			taken := tenantOf(key)
			since[taken] = map[cache.ObjectName]int{}
			for tenant, others := range since {
				if others[taken]++; tenant != taken && waits(tenant) && others[taken] > 1 {
					t.Fatalf("%s has %d turns while %s waits", taken, others[taken], tenant)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){"add": add, "take": take, "": func(t *rapid.T) {
			if turns.Len() != len(waiting) {
				t.Fatalf("%d keys wait, want %d", turns.Len(), len(waiting))
			}
		}})
		for len(waiting) > 0 {
			take(t)
		}
		push(turns, "last", "key")
		pop(turns, 1)
		if len(turns.tenants) > 1 {
			t.Fatalf("kept %d tenants", len(turns.tenants))
		}
	})
}

// TestBusyNamespaceDoesNotDelayOthers checks the controller: 300 keys of one namespace wait when
// three keys of another are added, and every second pass is over one of these.
func TestBusyNamespaceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		begin := make(chan struct{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			<-begin
			return Result{}, nil
		}
		r.run()
		r.Enqueue(cache.NewObjectName("busy", "first"), SpecChange)
		synctest.Wait() // The queue is empty again, so the busy namespace has the first turn of the next round.
		for _, name := range numbers(299) {
			r.Enqueue(cache.NewObjectName("busy", name), SpecChange)
		}
		for _, name := range numbers(3) {
			r.Enqueue(cache.NewObjectName("other", name), SpecChange)
		}
		close(begin)
		synctest.Wait()

		var turns []int
		for i, pass := range r.seen() {
			if pass.key.Namespace == "other" {
				turns = append(turns, i)
			}
		}
		if want := []int{2, 4, 6}; !slices.Equal(turns, want) {
			t.Errorf("the passes over the other namespace are number %v, want %v", turns, want)
		}
		r.finish()
	})
}
