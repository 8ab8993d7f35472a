// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

// waiter is a reconciler. Its passes over objects of the namespace "slow" release
// their worker and wait an hour.
type waiter struct {
	working, most atomic.Int32
	done          atomic.Int32
}

func (w *waiter) reconcile(ctx context.Context, key cache.ObjectName, _ Reason) (Result, error) {
	w.enter()
	defer w.working.Add(-1)
	if key.Namespace == "slow" {
		w.working.Add(-1)
		reclaim, err := ReleaseWorker(ctx)
		if err != nil {
			w.working.Add(1)
			return Result{}, err
		}
		time.Sleep(time.Hour)
		reclaim()
		w.enter()
	}
	time.Sleep(slowPass / 2)
	w.done.Add(1)
	return Result{}, nil
}

func (w *waiter) enter() {
	now := w.working.Add(1)
	for most := w.most.Load(); now > most && !w.most.CompareAndSwap(most, now); most = w.most.Load() {
	}
}

func (r *rig) enqueueMany(namespace string, count int) {
	for i := range count {
		r.Enqueue(cache.NewObjectName(namespace, strconv.Itoa(i)), SpecChange)
	}
}

func TestWaitingPassReleasesWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newRig(t, Options{Workers: 2}), &waiter{}
		r.reconcile = w.reconcile
		r.run()
		r.enqueueMany("slow", 10)
		advance(time.Minute)

		r.enqueueMany("quick", 4)
		advance(2 * time.Second)

		if got := w.done.Load(); got != 4 {
			t.Errorf("%d objects were reconciled while ten wait, want 4", got)
		}
		advance(time.Hour + 10*time.Second)
		if got := w.done.Load(); got != 14 {
			t.Errorf("%d objects were reconciled after the wait, want 14", got)
		}
		if most, slots := w.most.Load(), int32(cap(r.slots.taken[large])); most > slots {
			t.Errorf("%d passes ran at a time, want at most %d", most, slots)
		}
		r.finish()
	})
}

func TestWorkerCountAfterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newRig(t, Options{Workers: 2}), &waiter{}
		r.reconcile = w.reconcile
		r.run()
		for range 3 {
			r.enqueueMany("slow", 10)
			advance(2 * time.Hour)
		}
		w.done.Store(0)

		r.enqueueMany("quick", 20)
		advance(5*slowPass/2 + time.Millisecond)

		if got := w.done.Load(); got != 10 {
			t.Errorf("two workers reconciled %d objects in five halves of a second, want 10", got)
		}
		advance(5 * time.Second)
		r.finish()
	})
}

// TestPanicFreesSlot: a pass that panics while it waits frees its slot.
func TestPanicFreesSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newRig(t, Options{Workers: 1}), &waiter{}
		r.reconcile = func(ctx context.Context, key cache.ObjectName, why Reason) (Result, error) {
			if key.Namespace != "broken" {
				return w.reconcile(ctx, key, why)
			}
			if _, err := ReleaseWorker(ctx); err != nil {
				return Result{}, err
			}
			if _, err := ReleaseWorker(ctx); err == nil {
				t.Error("a pass released its worker twice")
			}
			panic("broken")
		}
		r.run()
		r.enqueueMany("broken", 5)
		advance(time.Second)

		r.enqueueMany("quick", 3)
		advance(4 * time.Second)

		if got := w.done.Load(); got != 3 {
			t.Errorf("%d objects were reconciled, want 3", got)
		}
		r.finish()
	})
}

func TestWaitingPassesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const share = MaxWaiting / 2
		r, w := newRig(t, Options{Workers: 2}), &waiter{}
		var last atomic.Value
		var refused sync.Map
		r.reconcile = func(ctx context.Context, key cache.ObjectName, why Reason) (Result, error) {
			result, err := w.reconcile(ctx, key, why)
			if err != nil {
				last.Store(err)
				refused.Store(key, true)
			}
			return result, err
		}
		r.run()

		r.enqueueMany("slow", share+6)
		advance(time.Minute)

		got := 0
		refused.Range(func(any, any) bool { got++; return true })
		if got != 6 {
			t.Errorf("%d objects of one namespace could not release their worker, want 6", got)
		}
		if err, _ := last.Load().(error); !errors.Is(err, ErrTooManyWaiting) || IsTerminal(err) {
			t.Errorf("error is %v, want ErrTooManyWaiting, not terminal", err)
		}
		advance(6 * time.Hour)
		if got := w.done.Load(); got != share+6 {
			t.Errorf("%d objects were reconciled after the retries, want %d", got, share+6)
		}
		r.finish()
	})
}

func TestShutdownWaitsForWaitingPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newRig(t, Options{}), &waiter{}
		r.reconcile = w.reconcile
		r.run()
		r.enqueueMany("slow", 1)
		advance(time.Minute)

		r.stop(nil)
		advance(time.Minute)
		select {
		case err := <-r.ended:
			t.Errorf("Run returned %v while a pass waits", err)
		default:
		}
		advance(time.Hour)

		if got := w.done.Load(); got != 1 {
			t.Errorf("%d passes finished, want 1", got)
		}
		r.finish()
	})
}

func TestReleaseWorkerOutsidePass(t *testing.T) {
	reclaim, err := ReleaseWorker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reclaim()
}
