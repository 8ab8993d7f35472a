// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
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
