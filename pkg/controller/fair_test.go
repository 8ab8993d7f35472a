// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

// delays runs passes that take as long as the namespace says, and notes when each pass began.
type delays struct {
	took map[string]time.Duration

	mu    sync.Mutex
	began map[cache.ObjectName]time.Time
	// inFlight and most are the passes in flight by namespace, and their maximum.
	inFlight, most map[string]int
	ended          int
}

func newDelays(took map[string]time.Duration) *delays {
	return &delays{took: took, began: map[cache.ObjectName]time.Time{}, inFlight: map[string]int{}, most: map[string]int{}}
}

func (d *delays) reconcile(_ context.Context, key cache.ObjectName, _ Reason) (Result, error) {
	d.mu.Lock()
	d.began[key] = time.Now()
	d.inFlight[key.Namespace]++
	d.most[key.Namespace] = max(d.most[key.Namespace], d.inFlight[key.Namespace])
	d.mu.Unlock()
	time.Sleep(d.took[key.Namespace])
	d.mu.Lock()
	d.inFlight[key.Namespace]--
	d.ended++
	d.mu.Unlock()
	return Result{}, nil
}

// TestHeavyNamespaceDelaysNobody: an object of another namespace starts at once, in each lane, while
// heavy namespaces have more slow passes than there are workers. If each of many namespaces is heavy, it
// starts after at most one turn of each.
func TestHeavyNamespaceDelaysNobody(t *testing.T) {
	tests := map[string]struct {
		workers, heavy, objects int
		// settle is the time before the object of the other namespace arrives.
		settle, want time.Duration
	}{
		"one namespace, at once":              {workers: 10, heavy: 1, objects: 12},
		"one namespace, later":                {workers: 10, heavy: 1, objects: 12, settle: 5 * time.Second},
		"one namespace with 1,000 objects":    {workers: 10, heavy: 1, objects: 1000, settle: 5 * time.Second},
		"thirty namespaces":                   {workers: 10, heavy: 30, objects: 20, settle: 5 * time.Second},
		"more namespaces than passes":         {workers: 2, heavy: 30, objects: 20, settle: 31 * time.Second, want: 30 / 2 * slowPass},
		"as many namespaces as passes":        {workers: 10, heavy: 39, objects: 20, settle: 31 * time.Second},
		"sixty namespaces":                    {workers: 10, heavy: 60, objects: 20, settle: 31 * time.Second, want: 60 / 10 * slowPass},
		"one worker, which a slow pass frees": {workers: 1, heavy: 1, objects: 12, want: slowPass},
	}
	for name, test := range tests {
		for _, why := range []Reason{SpecChange, Drift} {
			t.Run(fmt.Sprint(name, " ", why), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, d := newRig(t, Options{Workers: test.workers}), newDelays(map[string]time.Duration{"other": 0})
					for i := range test.heavy {
						d.took[fmt.Sprint("heavy-", i)] = 20 * time.Second
					}
					r.reconcile = d.reconcile
					r.run()
					for i := range test.heavy {
						for j := range test.objects {
							r.Enqueue(cache.NewObjectName(fmt.Sprint("heavy-", i), fmt.Sprint(j)), why)
						}
					}
					advance(test.settle)

					added := time.Now()
					r.Enqueue(cache.NewObjectName("other", "a"), why)
					advance(16 * slowPass)

					began, ok := d.began[cache.NewObjectName("other", "a")]
					if !ok || began.Sub(added) > test.want {
						t.Errorf("the pass began after %v (%v), want %v", began.Sub(added), ok, test.want)
					}
					r.stop(nil)
					advance(time.Minute)
					r.finish()
				})
			})
		}
	}
}

// TestNamespaceHasBoundedPasses: slow passes of a namespace count until they end, and each end lets
// the next one begin.
func TestNamespaceHasBoundedPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRig(t, Options{Workers: 10}), newDelays(map[string]time.Duration{"heavy": 20 * time.Second})
		r.reconcile = d.reconcile
		r.run()
		r.enqueueMany("heavy", 40)

		advance(5*20*time.Second + time.Millisecond)

		if d.ended != 40 || d.most["heavy"] != 8 {
			t.Errorf("%d passes ended, at most %d at a time; want 40, 8 at a time", d.ended, d.most["heavy"])
		}
		r.finish()
	})
}

// TestQuickPassesUseShare: a single namespace is as fast as its share of the workers allows.
func TestQuickPassesUseShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRig(t, Options{Workers: 10}), newDelays(map[string]time.Duration{"only": 100 * time.Millisecond})
		r.reconcile = d.reconcile
		r.run()
		r.enqueueMany("only", 80)

		advance(time.Second + time.Millisecond)

		if d.ended != 80 {
			t.Errorf("%d passes ended in a second, want 80", d.ended)
		}
		r.finish()
	})
}

// TestWaitingNamespacesLeaveRoom: a namespace may wait although other namespaces have their maximum
// of waiting passes.
func TestWaitingNamespacesLeaveRoom(t *testing.T) {
	waiting := newSlots([lanes]int{1, 1})
	for _, namespace := range []string{"a", "b", "c"} {
		for waiting.beginWait(namespace) == nil {
		}
	}
	if got := waiting.waiting; got >= MaxWaiting {
		t.Errorf("%d passes of three namespaces wait, want fewer than %d", got, MaxWaiting)
	}
	for range 3 {
		if err := waiting.beginWait("d"); err != nil {
			t.Error(err)
		}
	}
}
