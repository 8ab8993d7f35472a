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
func testTurns() *turns { return newTurns(clock.RealClock{}, func(time.Duration) {}) }

// push adds keys of a namespace to the storage, as the workqueue does.
func push(t *turns, namespace string, isSmall bool, names ...string) {
	for _, name := range names {
		key := cache.NewObjectName(namespace, name)
		t.setSmall(key, isSmall)
		t.Push(key)
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
	push(turns, "a", false, numbers(300)...)
	wantKeys(t, pop(turns, 1), "a/0")
	push(turns, "b", false, "0", "1")
	push(turns, "c", false, "0")

	wantKeys(t, pop(turns, 7), "b/0", "c/0", "a/1", "b/1", "a/2", "a/3", "a/4")
}

// TestClusterScopedKeysAreTenants: cluster-scoped objects do not share the turn of one
// namespace.
func TestClusterScopedKeysAreTenants(t *testing.T) {
	turns := testTurns()
	push(turns, "a", false, numbers(3)...)
	push(turns, "", false, numbers(3)...)

	wantKeys(t, pop(turns, 6), "a/0", "0", "1", "2", "a/1", "a/2")
}

// TestTurnWait: a namespace that floods the queue waits for its turns as long as any other, however
// long its keys wait.
func TestTurnWait(t *testing.T) {
	clock, waits := clocktesting.NewFakeClock(time.Unix(0, 0)), []time.Duration{}
	turns := newTurns(clock, func(waited time.Duration) { waits = append(waits, waited) })
	push(turns, "a", false, numbers(300)...)
	push(turns, "b", false, "0")
	for range 4 {
		clock.Step(time.Second)
		pop(turns, 1)
	}
	clock.Step(time.Hour)
	push(turns, "b", false, "1")
	clock.Step(time.Second)
	turns.setSmall(cache.NewObjectName("b", "1"), true)
	turns.Touch(cache.NewObjectName("b", "1"))
	pop(turns, 1)

	want := []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, time.Second, time.Second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestSmallKeysGoFirst(t *testing.T) {
	turns := testTurns()
	for _, namespace := range numbers(200) {
		push(turns, namespace, false, "install")
	}
	push(turns, "a", true, "drift")
	push(turns, "7", true, "drift")

	wantKeys(t, pop(turns, 4), "a/drift", "7/drift", "0/install", "1/install")
}

// TestSmallKeysDoNotStarveOthers: neither the other namespaces nor the other keys of the
// namespace wait for the end of a stream of small keys.
func TestSmallKeysDoNotStarveOthers(t *testing.T) {
	turns := testTurns()
	push(turns, "drifts", false, "install")
	push(turns, "drifts", true, "0")
	push(turns, "b", false, "0", "1")
	var got []string
	for i := range 6 {
		got = append(got, pop(turns, 1)...)
		push(turns, "drifts", true, fmt.Sprint(i+1))
	}

	wantKeys(t, got, "drifts/0", "b/0", "drifts/1", "b/1", "drifts/2", "drifts/install")
}

func TestTouchMovesKeyWithNewReasons(t *testing.T) {
	turns := testTurns()
	push(turns, "a", false, "0", "1", "2")
	key := cache.NewObjectName("a", "2")
	turns.setSmall(key, true)
	turns.Touch(key)
	push(turns, "a", true, "3")
	key = cache.NewObjectName("a", "3")
	turns.setSmall(key, false)
	turns.Touch(key)

	wantKeys(t, pop(turns, turns.Len()), "a/2", "a/0", "a/1", "a/3")
}

// TestTurnsAreFair checks the storage with random keys: it hands out each key once, and
// between two turns of a tenant that waits, every other tenant has at most two turns. It keeps
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
			turns.setSmall(key, rapid.Bool().Draw(t, "small"))
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
				if others[taken]++; tenant != taken && waits(tenant) && others[taken] > 2 {
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
		push(turns, "last", false, "key")
		pop(turns, 1)
		if len(turns.tenants) > 1 || len(turns.small) > 0 || len(turns.keys) > 0 {
			t.Fatalf("kept %d tenants, %d small keys and %d keys", len(turns.tenants), len(turns.small), len(turns.keys))
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

// TestDriftDoesNotWaitForInstalls checks the controller: the pass over a drifted object does not
// wait for passes over new objects, in its namespace or in other namespaces.
func TestDriftDoesNotWaitForInstalls(t *testing.T) {
	for name, namespace := range map[string]func(int) string{
		"of one namespace":   func(int) string { return keyA.Namespace },
		"of many namespaces": func(i int) string { return fmt.Sprint(i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				begin := make(chan struct{})
				r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
					<-begin
					return Result{}, nil
				}
				r.run()
				for i := range 200 {
					r.Enqueue(cache.NewObjectName(namespace(i), fmt.Sprint(i)), SpecChange)
				}
				synctest.Wait()
				r.Enqueue(keyA, Drift)
				close(begin)
				synctest.Wait()

				at := slices.IndexFunc(r.seen(), func(p pass) bool { return p.key == keyA })
				if at != 1 { // One pass was in flight.
					t.Errorf("the pass is number %d, want 1", at)
				}
				r.finish()
			})
		})
	}
}
