// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// step is one call of Enqueue or EnqueueAfter.
type step struct {
	key   cache.ObjectName
	why   Reason
	after time.Duration // 0: Enqueue, else EnqueueAfter
	wait  time.Duration // delay before the next step
}

// outcome is how one pass ends.
type outcome struct {
	took         time.Duration
	err          error
	requeueAfter time.Duration
}

// history is a reconciler that checks its passes.
type history struct {
	mu      sync.Mutex
	t       *testing.T
	start   time.Time
	running map[cache.ObjectName]bool
	// owed maps each reason that no pass has received yet to its due time.
	owed     map[cache.ObjectName]map[Reason]time.Duration
	outcomes []outcome
}

func (h *history) owe(key cache.ObjectName, why Reason, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owed[key] == nil {
		h.owed[key] = map[Reason]time.Duration{}
	}
	h.owed[key][why] = at
}

// Reconcile returns the next outcome. After the last outcome, every pass succeeds.
func (h *history) Reconcile(_ context.Context, key cache.ObjectName, why Reason) (Result, error) {
	h.mu.Lock()
	if h.running[key] {
		h.t.Errorf("%v: two passes at a time", key)
	}
	if why == 0 {
		h.t.Errorf("%v: a pass without a reason", key)
	}
	h.running[key] = true
	for reason, at := range h.owed[key] {
		if why.Has(reason) && at <= time.Since(h.start) {
			delete(h.owed[key], reason)
		}
	}
	var now outcome
	if len(h.outcomes) > 0 {
		now, h.outcomes = h.outcomes[0], h.outcomes[1:]
	}
	h.mu.Unlock()

	time.Sleep(now.took)

	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[key] = false
	return Result{RequeueAfter: now.requeueAfter}, now.err
}

// TestRandomEvents checks the queue with random events and outcomes. No reason and
// no deadline is lost. No key has two passes at a time. The queue keeps nothing of
// keys that are settled.
func TestRandomEvents(t *testing.T) {
	upTo := func(limit time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(limit/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		})
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{
			key:  rapid.SampledFrom([]cache.ObjectName{keyA, keyB}).Draw(t, "key"),
			why:  rapid.SampledFrom([]Reason{SpecChange, Drift, HealthChange}).Draw(t, "why"),
			wait: upTo(3*time.Second).Draw(t, "wait"),
		}
		if rapid.Bool().Draw(t, "later") {
			s.why = rapid.SampledFrom([]Reason{DependencyReady, Deleted}).Draw(t, "why")
			s.after = time.Millisecond + upTo(time.Minute).Draw(t, "after")
		}
		return s
	}), 0, 30)
	outcomes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) outcome {
		return outcome{
			took:         upTo(2*time.Second).Draw(t, "took"),
			err:          rapid.SampledFrom([]error{nil, errTransient, errConflict, Terminal(errTransient)}).Draw(t, "err"),
			requeueAfter: rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "requeueAfter"),
		}
	}), 0, 30)

	rapid.Check(t, func(rt *rapid.T) {
		s, o := steps.Draw(rt, "steps"), outcomes.Draw(rt, "outcomes")
		synctest.Test(t, func(t *testing.T) { playAll(t, s, o) })
		if t.Failed() {
			rt.Fatal(fmt.Sprint("failed with ", s, o))
		}
	})
}

func playAll(t *testing.T, steps []step, outcomes []outcome) {
	h := &history{
		t: t, start: time.Now(), outcomes: outcomes,
		running: map[cache.ObjectName]bool{}, owed: map[cache.ObjectName]map[Reason]time.Duration{},
	}
	c := New(h, Options{Name: "test", Workers: 2})
	stop, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(stop, t.Context()) }()
	for _, s := range steps {
		h.owe(s.key, s.why, time.Since(h.start)+s.after)
		if s.after == 0 {
			c.Enqueue(s.key, s.why)
		} else {
			c.EnqueueAfter(s.key, s.after, s.why)
		}
		advance(s.wait)
	}
	// The reasons of a terminal error are carried to the next event.
	advance(24 * time.Hour)
	h.mu.Lock()
	h.outcomes = nil
	h.mu.Unlock()
	for _, key := range []cache.ObjectName{keyA, keyB} {
		c.Enqueue(key, Deleted)
	}
	advance(24 * time.Hour)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for key, reasons := range h.owed {
		if len(reasons) > 0 {
			t.Errorf("%v: no pass received %v", key, reasons)
		}
	}
	if n := c.queue.size(); n != 0 {
		t.Errorf("the queue holds %d keys, want none", n)
	}
}

// TestLastEventIsReconciledUnderLoad checks that a pass follows the last of many
// concurrent events, and receives its reason.
func TestLastEventIsReconciledUnderLoad(t *testing.T) {
	const changes = 2000
	reasons := []Reason{SpecChange, Drift, HealthChange, DependencyReady}
	synctest.Test(t, func(t *testing.T) {
		// For each reason: the number of events, and the number at the last pass.
		var given, seen [4]atomic.Int64
		c := New(ReconcilerFunc(func(_ context.Context, _ cache.ObjectName, why Reason) (Result, error) {
			for i, reason := range reasons {
				if why.Has(reason) {
					seen[i].Store(given[i].Load())
				}
			}
			return Result{}, nil
		}), Options{Name: "test", Workers: 2})
		stop, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(stop, t.Context()) }()
		var writers sync.WaitGroup
		for i, reason := range reasons {
			writers.Go(func() {
				for range changes {
					given[i].Add(1)
					c.Enqueue(keyA, reason)
				}
			})
		}
		writers.Wait()
		synctest.Wait()
		for i, reason := range reasons {
			if got := seen[i].Load(); got != changes {
				t.Errorf("%v: %d of %d changes seen", reason, got, changes)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
