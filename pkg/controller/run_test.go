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

// TestStopIsNoFailure: a pass that ends early because the process stops is no error.
func TestStopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(ctx context.Context, _ cache.ObjectName, _ Reason) (Result, error) {
			<-Stop(ctx).Done()
			return Result{}, fmt.Errorf("ended: %w", context.Canceled)
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(time.Second)
		r.stop(errors.New("SIGTERM"))
		if err := <-r.ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if log := strings.Join(r.logs, "\n"); strings.Contains(log, "Reconcile failed") {
			t.Errorf("log is %s", log)
		}
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
