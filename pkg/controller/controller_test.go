// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestEqualKeysMergeTheirReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(time.Second)
			return Result{}, nil
		}
		r.Enqueue(keyB, Deleted)
		r.run()
		synctest.Wait()
		r.Enqueue(keyA, SpecChange)
		r.Enqueue(keyA, HealthChange)
		advance(time.Second)
		r.want(pass{keyB, Deleted, 0}, pass{keyA, SpecChange | HealthChange, time.Second})
		advance(time.Second)
		r.finish()
	})
}

func TestEventDuringPassStartsAnotherPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Workers: 4})
		var running, most atomic.Int32
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(300 * time.Millisecond)
		r.Enqueue(keyA, Drift)
		r.Enqueue(keyA, HealthChange)
		advance(3 * time.Second)
		r.want(pass{keyA, SpecChange, 0}, pass{keyA, Drift | HealthChange, time.Second})
		if most.Load() != 1 {
			t.Errorf("%d passes over one key at a time", most.Load())
		}
		r.finish()
	})
}

func TestWorkersRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		c := New(ReconcilerFunc(func(context.Context, cache.ObjectName, Reason) (Result, error) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return Result{}, nil
		}), Options{Name: "test", Workers: 3})
		stop, cancel := context.WithCancel(t.Context())
		for i := range 9 {
			c.Enqueue(cache.NewObjectName("ns", fmt.Sprint(i)), SpecChange)
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(stop, t.Context()) }()
		advance(10 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if most.Load() != 3 {
			t.Errorf("%d passes at a time, want 3", most.Load())
		}
	})
}

func TestKeysAreTakenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newRig(t, Options{}), cache.NewObjectName("ns", "first")
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(time.Second)
			return Result{}, nil
		}
		r.run()
		r.Enqueue(first, SpecChange)
		synctest.Wait()

		r.Enqueue(keyA, SpecChange)
		r.Enqueue(keyB, DependencyReady)
		r.Enqueue(keyA, Drift)
		advance(5 * time.Second)

		r.want(pass{first, SpecChange, 0}, pass{keyA, SpecChange | Drift, time.Second}, pass{keyB, DependencyReady, 2 * time.Second})
		r.finish()
	})
}

func TestDeadlines(t *testing.T) {
	tests := []struct {
		name string
		set  func(r *rig)
		want []pass
	}{
		{
			"an early deadline keeps a late one of another reason",
			func(r *rig) {
				r.EnqueueAfter(keyA, 10*time.Minute, HealthChange)
				r.EnqueueAfter(keyA, time.Minute, DependencyReady)
			},
			[]pass{{keyA, DependencyReady, time.Minute}, {keyA, HealthChange, 10 * time.Minute}},
		},
		{
			"a late deadline keeps an early one of another reason",
			func(r *rig) {
				r.EnqueueAfter(keyA, time.Minute, DependencyReady)
				r.EnqueueAfter(keyA, 10*time.Minute, HealthChange)
			},
			[]pass{{keyA, DependencyReady, time.Minute}, {keyA, HealthChange, 10 * time.Minute}},
		},
		{
			"a later deadline replaces that of the same reason",
			func(r *rig) {
				r.EnqueueAfter(keyA, time.Minute, Drift)
				r.EnqueueAfter(keyA, 5*time.Minute, Drift)
			},
			[]pass{{keyA, Drift, 5 * time.Minute}},
		},
		{
			"an earlier deadline replaces that of the same reason",
			func(r *rig) {
				r.EnqueueAfter(keyA, 5*time.Minute, Drift)
				r.EnqueueAfter(keyA, time.Minute, Drift)
			},
			[]pass{{keyA, Drift, time.Minute}},
		},
		{
			"equal deadlines start one pass",
			func(r *rig) {
				r.EnqueueAfter(keyA, time.Minute, Drift)
				r.EnqueueAfter(keyA, time.Minute, HealthChange)
			},
			[]pass{{keyA, Drift | HealthChange, time.Minute}},
		},
		{
			"an event keeps the deadline",
			func(r *rig) {
				r.EnqueueAfter(keyA, 10*time.Minute, Drift)
				time.Sleep(time.Minute)
				r.Enqueue(keyA, SpecChange)
			},
			[]pass{{keyA, SpecChange, time.Minute}, {keyA, Drift, 10 * time.Minute}},
		},
		{
			"a negative delay is due at once",
			func(r *rig) { r.EnqueueAfter(keyA, -time.Second, Drift) },
			[]pass{{keyA, Drift, 0}},
		},
		{
			"each key has its own deadline",
			func(r *rig) {
				r.EnqueueAfter(keyA, 2*time.Minute, Drift)
				r.EnqueueAfter(keyB, time.Minute, Drift)
			},
			[]pass{{keyB, Drift, time.Minute}, {keyA, Drift, 2 * time.Minute}},
		},
		{
			"no pass without a reason",
			func(r *rig) { r.Enqueue(keyA, 0) },
			nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				r.run()
				test.set(r)
				advance(time.Hour)
				r.want(test.want...)
				if n := r.queue.size(); n != 0 {
					t.Errorf("the queue holds %d keys, want none", n)
				}
				r.finish()
			})
		})
	}
}

func TestDeadlinesBeforeRunAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.EnqueueAfter(keyA, time.Minute, Drift)
		r.EnqueueAfter(keyB, time.Hour, Drift)
		advance(10 * time.Minute)
		r.run()
		r.want(pass{keyA, Drift, 10 * time.Minute})
		advance(50 * time.Minute)
		r.want(pass{keyA, Drift, 10 * time.Minute}, pass{keyB, Drift, time.Hour})
		r.finish()
	})
}

func TestPeriodicResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(_ context.Context, _ cache.ObjectName, why Reason) (Result, error) {
			if why.Has(Deleted) {
				return Result{}, nil
			}
			return Result{RequeueAfter: 10 * time.Minute}, nil
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(4 * time.Minute)
		r.Enqueue(keyA, Drift)
		advance(11 * time.Minute)
		want := []pass{{keyA, SpecChange, 0}, {keyA, Drift, 4 * time.Minute}, {keyA, PeriodicResync, 14 * time.Minute}}
		r.want(want...)

		r.Enqueue(keyA, Deleted)
		advance(time.Hour)
		r.want(append(want, pass{keyA, Deleted, 15 * time.Minute})...)
		if n := r.queue.size(); n != 0 {
			t.Errorf("the queue holds %d keys, want none", n)
		}
		r.finish()
	})
}

func TestJitter(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 2000 {
		d := Jitter(10 * time.Minute)
		least, most = min(least, d), max(most, d)
	}
	if least < 9*time.Minute || most > 11*time.Minute || most-least < 90*time.Second {
		t.Errorf("Jitter(10m) lies in %v..%v", least, most)
	}
}
