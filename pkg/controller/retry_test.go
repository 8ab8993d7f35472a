// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestRetryKeepsReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		failures := 0
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			if failures++; failures <= 14 {
				return Result{}, errTransient
			}
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyA, Drift)
		advance(2 * time.Hour)

		passes := r.seen()
		if len(passes) != 15 {
			t.Fatalf("%d passes, want 14 failures and a success", len(passes))
		}
		want := 500 * time.Millisecond
		for i, p := range passes[1:] {
			if p.why != Drift|Retry {
				t.Errorf("pass %d for %v", i, p.why)
			}
			if delay := p.at - passes[i].at; !near(delay, want) {
				t.Errorf("delay %d is %v, want %v within 10 %%", i, delay, want)
			}
			want = min(2*want, 5*time.Minute)
		}
		if n := r.queue.size(); n != 0 || r.queue.attempts(keyA) != 0 {
			t.Errorf("the queue holds %d keys after success, want none", n)
		}
		r.finish()
	})
}

// TestEventsDoNotProlongBackoff: passes that events start before the retry fail, too.
func TestEventsDoNotProlongBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) { return Result{}, errTransient }
		r.run()
		r.Enqueue(keyA, Drift)
		for range 10 {
			advance(10 * time.Millisecond)
			r.Enqueue(keyA, HealthChange)
		}
		advance(500 * time.Millisecond)

		passes := r.seen()
		if len(passes) != 12 || !near(passes[11].at, 500*time.Millisecond) || r.queue.attempts(keyA) != 2 {
			t.Errorf("%d counted failures, passes %v; want a retry after 500 ms", r.queue.attempts(keyA), passes)
		}
		r.finish()
	})
}

func TestEarlierPassReplacesRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(_ context.Context, _ cache.ObjectName, why Reason) (Result, error) {
			if why.Has(HealthChange) {
				return Result{}, nil
			}
			return Result{}, errTransient
		}
		r.run()
		r.Enqueue(keyA, Drift)
		advance(100 * time.Millisecond)
		r.Enqueue(keyA, HealthChange)
		advance(time.Hour)
		r.want(pass{keyA, Drift, 0}, pass{keyA, Drift | HealthChange | Retry, 100 * time.Millisecond})
		r.finish()
	})
}

func TestSpecChangeResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) { return Result{}, errTransient }
		r.run()
		r.Enqueue(keyA, Drift)
		advance(time.Hour)
		before := len(r.seen())
		at := time.Since(r.start)
		r.Enqueue(keyA, SpecChange)
		advance(600 * time.Millisecond)
		passes := r.seen()[before:]
		if len(passes) != 2 || passes[0].at != at || !near(passes[1].at-at, 500*time.Millisecond) {
			t.Fatalf("passes = %v", passes)
		}
		if why := passes[1].why; why != SpecChange|Drift|Retry {
			t.Errorf("retry for %v", why)
		}
		r.finish()
	})
}

func TestConflictsAreRetriedWithoutErrorLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		left := 2
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			if left--; left >= 0 {
				return Result{}, fmt.Errorf("update: %w", errConflict)
			}
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyA, Drift)
		advance(time.Second)
		passes := r.seen()
		if len(passes) != 3 || !near(passes[1].at, 100*time.Millisecond) ||
			!near(passes[2].at-passes[1].at, 200*time.Millisecond) {
			t.Errorf("passes = %v", passes)
		}
		if logs := r.logged(); len(logs) != 0 {
			t.Errorf("logged %q", logs)
		}
		r.finish()
	})
}

func TestTerminalErrors(t *testing.T) {
	tests := []struct {
		name   string
		result Result
		event  bool
		want   []pass
	}{
		{"is not retried", Result{}, false, []pass{{keyA, Drift, 0}}},
		{
			"is reconciled after a change",
			Result{},
			true,
			[]pass{{keyA, Drift, 0}, {keyA, SpecChange | Drift | Retry, time.Minute}},
		},
		{
			"is reconciled after RequeueAfter",
			Result{RequeueAfter: 40 * time.Minute},
			false,
			[]pass{{keyA, Drift, 0}, {keyA, PeriodicResync | Drift | Retry, 40 * time.Minute}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
					return test.result, fmt.Errorf("render: %w", Terminal(errTransient))
				}
				r.run()
				r.Enqueue(keyA, Drift)
				advance(time.Minute)
				if test.event {
					r.Enqueue(keyA, SpecChange)
				}
				advance(59 * time.Minute)
				r.want(test.want...)
				r.finish()
			})
		})
	}
}

func TestErrorKeepsPeriodicResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		answers := []error{nil, Terminal(errTransient), nil}
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			err := answers[0]
			answers = answers[1:]
			if err != nil {
				return Result{}, err
			}
			return Result{RequeueAfter: 10 * time.Minute}, nil
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(time.Minute)
		r.Enqueue(keyA, HealthChange)
		advance(9 * time.Minute)
		r.want(pass{keyA, SpecChange, 0}, pass{keyA, HealthChange, time.Minute},
			pass{keyA, PeriodicResync | HealthChange | Retry, 10 * time.Minute})
		r.finish()
	})
}

func TestPanicIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		first := true
		r.reconcile = func(_ context.Context, key cache.ObjectName, _ Reason) (Result, error) {
			if key == keyA && first {
				first = false
				panic("out of cheese")
			}
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyA, HealthChange)
		r.Enqueue(keyB, HealthChange)
		advance(time.Second)
		passes, logs := r.seen(), r.logged()
		if len(passes) != 3 || passes[1].key != keyB || passes[2].why != HealthChange|Retry {
			t.Errorf("passes = %v", passes)
		}
		if len(logs) != 1 {
			t.Fatalf("logs = %q", logs)
		}
		for _, part := range []string{"out of cheese", "retry_test.go", `"controller"="test"`, "ns", "reconcileID"} {
			if !strings.Contains(logs[0], part) {
				t.Errorf("log lacks %q: %s", part, logs[0])
			}
		}
		r.finish()
	})
}

func TestLoggedErrorsAreBounded(t *testing.T) {
	long := errors.New(strings.Repeat("\u00e4", 1<<20))
	for name, err := range map[string]error{"transient": long, "terminal": Terminal(long)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) { return Result{}, err }
				r.run()

				r.Enqueue(keyA, SpecChange)
				synctest.Wait()

				logs := r.logged()
				if len(logs) != 1 || len(logs[0]) > maxLogged+500 || !strings.Contains(logs[0], "...") {
					t.Errorf("logged %d lines, of %d bytes", len(logs), len(strings.Join(logs, "")))
				}
				r.finish()
			})
		})
	}
}
