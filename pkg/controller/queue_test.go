// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"
)

// holdInstalls runs a controller with one worker whose passes for a change of the spec wait until
// the returned function is called. 200 such passes are requested, and one has begun. The first pass
// over keyB fails.
func holdInstalls(t *testing.T) (r *rig, release func()) {
	r = newRig(t, Options{})
	begin := make(chan struct{})
	r.reconcile = func(_ context.Context, key cache.ObjectName, why Reason) (Result, error) {
		if why.Has(SpecChange) {
			<-begin
		}
		if key == keyB && !why.Has(Retry) {
			return Result{}, errTransient
		}
		return Result{}, nil
	}
	r.run()
	for i := range 200 {
		r.Enqueue(cache.NewObjectName("installs", fmt.Sprint(i)), SpecChange)
	}
	synctest.Wait()
	return r, func() {
		close(begin)
		synctest.Wait()
	}
}

// passesOf returns the reasons of the passes over a key.
func (r *rig) passesOf(key cache.ObjectName) (reasons []Reason) {
	for _, p := range r.seen() {
		if p.key == key {
			reasons = append(reasons, p.why)
		}
	}
	return reasons
}

// TestSmallPassesDoNotWaitForInstalls: passes that follow an event of drift or health run while all
// workers install. All other passes wait until these are slow, also those that follow a deadline.
func TestSmallPassesDoNotWaitForInstalls(t *testing.T) {
	running := cache.NewObjectName("installs", "0")
	for name, test := range map[string]struct {
		key     cache.ObjectName
		request func(r *rig, key cache.ObjectName)
		// during and after are the passes over the key: those during the installs, and all.
		during, after []Reason
	}{
		"drift": {keyA, func(r *rig, key cache.ObjectName) { r.Enqueue(key, Drift) }, []Reason{Drift}, []Reason{Drift}},
		"health after a delay": {
			keyA, func(r *rig, key cache.ObjectName) { r.EnqueueAfter(key, slowPass/4, HealthChange) },
			nil,
			[]Reason{HealthChange},
		},
		"retry of a correction": {
			keyB, func(r *rig, key cache.ObjectName) { r.Enqueue(key, Drift) },
			[]Reason{Drift},
			[]Reason{Drift, Drift | Retry},
		},
		"install": {keyA, func(r *rig, key cache.ObjectName) { r.Enqueue(key, SpecChange) }, nil, []Reason{SpecChange}},
		"resync": {
			keyA, func(r *rig, key cache.ObjectName) { r.EnqueueAfter(key, slowPass/4, PeriodicResync) },
			nil,
			[]Reason{PeriodicResync},
		},
		"drift of an object that waits": {
			keyA, func(r *rig, key cache.ObjectName) { r.Enqueue(key, SpecChange); r.Enqueue(key, Drift) },
			nil,
			[]Reason{SpecChange | Drift},
		},
		"drift of an object that is installed": {
			running, func(r *rig, key cache.ObjectName) { r.Enqueue(key, Drift) },
			[]Reason{SpecChange},
			[]Reason{SpecChange, Drift},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, release := holdInstalls(t)

				test.request(r, test.key)
				advance(slowPass * 3 / 4)
				during := r.passesOf(test.key)
				release()

				if after := r.passesOf(test.key); !slices.Equal(during, test.during) || !slices.Equal(after, test.after) {
					t.Errorf("passes %v during the installs, and %v in all, want %v and %v", during, after, test.during, test.after)
				}
				r.finish()
			})
		})
	}
}
