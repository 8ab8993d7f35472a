// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var (
	keyA = cache.NewObjectName("ns", "a")
	keyB = cache.NewObjectName("ns", "b")

	errTransient = errors.New("transient")
	errConflict  = apierrors.NewConflict(schema.GroupResource{Resource: "apps"}, "a", errors.New("newer version"))
)

// pass is one call of the reconciler. at is the time since the start of the test.
type pass struct {
	key cache.ObjectName
	why Reason
	at  time.Duration
}

// rig runs a controller inside a synctest bubble and records its passes.
type rig struct {
	*Controller
	t          *testing.T
	start      time.Time
	reconcile  ReconcilerFunc
	stop, lead context.CancelCauseFunc
	ended      chan error

	mu     sync.Mutex
	passes []pass
	logs   []string
}

// newRig returns a controller that does not run yet, with one worker by default.
// Set the field reconcile to the function that the passes call.
func newRig(t *testing.T, opts Options) *rig {
	r := &rig{t: t, start: time.Now(), ended: make(chan error, 1)}
	if opts.Workers == 0 {
		opts.Workers = 1
	}
	opts.Name = "test"
	r.Controller = New(ReconcilerFunc(func(ctx context.Context, key cache.ObjectName, why Reason) (Result, error) {
		r.mu.Lock()
		r.passes = append(r.passes, pass{key, why, time.Since(r.start)})
		reconcile := r.reconcile
		r.mu.Unlock()
		if reconcile == nil {
			return Result{}, nil
		}
		return reconcile(ctx, key, why)
	}), opts)
	return r
}

func (r *rig) run(synced ...NamedSync) {
	logger := funcr.New(func(_, args string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logs = append(r.logs, args)
	}, funcr.Options{})
	stop, cancelStop := context.WithCancelCause(r.t.Context())
	lead, cancelLead := context.WithCancelCause(klog.NewContext(r.t.Context(), logger))
	r.stop, r.lead = cancelStop, cancelLead
	go func() { r.ended <- r.Run(stop, lead, synced...) }()
	synctest.Wait()
}

// finish stops the controller and checks that Run returns nil without delay.
func (r *rig) finish() {
	r.t.Helper()
	r.stop(nil)
	synctest.Wait()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("Run returned %v", err)
		}
	default:
		r.t.Error("Run has not returned")
	}
	r.lead(nil)
}

func (r *rig) want(want ...pass) {
	r.t.Helper()
	synctest.Wait()
	if passes := r.seen(); !slices.Equal(passes, want) {
		r.t.Errorf("passes = %v, want %v", passes, want)
	}
}

// seen returns the passes so far.
func (r *rig) seen() []pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.passes)
}

// logged returns the log lines so far.
func (r *rig) logged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.logs)
}

// size returns the number of keys that the queue holds.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// advance moves the fake time of the bubble.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func near(got, want time.Duration) bool {
	return got >= want-want/10 && got <= want+want/10
}

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
		r.Enqueue(keyB, Drift)
		r.Enqueue(keyA, Drift)
		advance(5 * time.Second)

		r.want(pass{first, SpecChange, 0}, pass{keyA, SpecChange | Drift, time.Second}, pass{keyB, Drift, 2 * time.Second})
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
		for _, part := range []string{"out of cheese", "controller_test.go", `"controller"="test"`, "ns", "reconcileID"} {
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

func TestStopDrainsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		var inFlight error
		r.reconcile = func(ctx context.Context, _ cache.ObjectName, _ Reason) (Result, error) {
			time.Sleep(10 * time.Second)
			inFlight = ctx.Err()
			return Result{RequeueAfter: time.Minute}, nil
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(time.Second)
		r.Enqueue(keyA, Drift)      // due again when the pass ends
		r.Enqueue(keyB, SpecChange) // due now, waits for a worker
		r.EnqueueAfter(keyB, 5*time.Second, Drift)
		r.stop(errors.New("SIGTERM"))
		advance(5 * time.Second)
		select {
		case err := <-r.ended:
			t.Fatalf("Run returned %v while a pass was in flight", err)
		default:
		}
		r.Enqueue(keyB, Drift)
		r.EnqueueAfter(keyB, time.Second, Drift)
		advance(4 * time.Second)
		if err := <-r.ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if inFlight != nil {
			t.Errorf("stop canceled the pass in flight: %v", inFlight)
		}
		advance(time.Hour)
		r.want(pass{keyA, SpecChange, 0})
		r.lead(nil)
	})
}

func TestLeadEndCancelsPasses(t *testing.T) {
	errLost := errors.New("lease lost")
	tests := []struct {
		name      string
		stopFirst bool
	}{
		{"while running", false},
		{"while draining", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				var cause error
				r.reconcile = func(ctx context.Context, _ cache.ObjectName, _ Reason) (Result, error) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					time.Sleep(time.Second)
					return Result{}, ctx.Err()
				}
				r.run()
				r.Enqueue(keyA, SpecChange)
				r.Enqueue(keyB, SpecChange)
				advance(time.Minute)
				if test.stopFirst {
					r.stop(nil)
					advance(time.Minute)
				}
				r.lead(errLost)
				advance(time.Second)
				select {
				case err := <-r.ended:
					if !errors.Is(err, errLost) || !strings.Contains(err.Error(), `controller "test"`) {
						t.Errorf("Run returned %v", err)
					}
				default:
					t.Fatal("Run has not returned")
				}
				if !errors.Is(cause, errLost) {
					t.Errorf("cause in the pass is %v", cause)
				}
				r.want(pass{keyA, SpecChange, 0})
				if logs := r.logged(); len(logs) != 0 {
					t.Errorf("logged %q", logs)
				}
			})
		})
	}
}

func TestCacheSync(t *testing.T) {
	const never = 24 * time.Hour
	tests := []struct {
		name  string
		after time.Duration
		end   func(r *rig)
		want  error
		logs  []string
	}{
		{name: "in time", after: 10 * time.Second},
		{name: "late", after: time.Hour, logs: []string{"slow, deployments"}},
		{name: "stopped meanwhile", after: never, end: func(r *rig) { r.stop(nil) }, logs: []string{"slow, deployments"}},
		{
			name: "lead lost meanwhile", after: never, end: func(r *rig) { r.lead(errTransient) },
			want: errTransient, logs: []string{"slow, deployments"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{})
				synced := func() bool { return time.Since(r.start) >= test.after }
				r.Enqueue(keyA, SpecChange)

				r.run(NamedSync{"demoapps", func() bool { return true }}, NamedSync{"slow", synced}, NamedSync{"deployments", synced})

				r.want()
				advance(2 * time.Hour)
				if logs := r.logged(); len(logs) != len(test.logs) || len(logs) > 0 && !strings.Contains(logs[0], test.logs[0]) {
					t.Errorf("logged %q, want %q", logs, test.logs)
				}
				if test.end == nil {
					r.want(pass{keyA, SpecChange, test.after})
					r.finish()
					return
				}
				test.end(r)
				if err := <-r.ended; !errors.Is(err, test.want) {
					t.Errorf("Run returned %v, want %v", err, test.want)
				}
				r.want()
			})
		})
	}
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
