// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/served"
)

var app = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}

var apps = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}

// world is a runner with the kinds of an API server.
type world struct {
	t          *testing.T
	runner     *served.Runner
	stop, lead context.CancelCauseFunc
	ended      chan error

	mu          sync.Mutex
	resource    *served.Resource // Nil while the kind is not served.
	unavailable error
	subscribers []func()
	looks       int
	log         []string
	waiting     map[string]bool
}

// Resource implements served.Kinds.
func (w *world) Resource(kind schema.GroupVersionKind) (served.Resource, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	switch {
	case w.unavailable != nil:
		return served.Resource{}, w.unavailable
	case w.resource == nil:
		return served.Resource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	default:
		return *w.resource, nil
	}
}

// Subscribe implements served.Kinds.
func (w *world) Subscribe(subscriber func()) { w.subscribers = append(w.subscribers, subscriber) }

// bubble runs a test in a synctest bubble.
func bubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, waiting: map[string]bool{}, ended: make(chan error, 1)}
		w.runner = served.NewRunner(served.New(served.Config{Kinds: w, Clock: clock.RealClock{}, Waiting: func(name string, waiting bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waiting[name] = waiting
		}}))
		var stop, lead context.Context
		lead, w.lead = context.WithCancelCause(context.WithoutCancel(t.Context()))
		stop, w.stop = context.WithCancelCause(lead)
		go func() { w.ended <- w.runner.Run(stop, lead) }()
		test(w)
		w.stop(nil)
		synctest.Wait()
	})
}

// serve changes how the API server serves the kind, and notifies the follower.
func (w *world) serve(resource *served.Resource) {
	w.mu.Lock()
	w.resource = resource
	w.mu.Unlock()
	w.tell()
}

func (w *world) tell() {
	for _, subscriber := range w.subscribers {
		subscriber()
	}
	w.wait(time.Minute)
}

// wait advances the time, and waits until nothing moves any more.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) note(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, values...))
}

// wants compares the events since the last call.
func (w *world) wants(what string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.log); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	w.log = nil
}

func (w *world) isWaiting(want bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting["app"] != want {
		w.t.Errorf("waiting is %t", !want)
	}
}

// target is a target that notes its runs.
func (w *world) target(name, revision string) served.Target {
	return served.Target{Name: name, Kind: app.GroupVersion().WithKind(name), Revision: revision, Run: func(stop, _ context.Context, resource served.Resource, synced func()) error {
		synced()
		scope := "cluster"
		if resource.Namespaced {
			scope = "namespaced"
		}
		w.note("%s %s: run %s, %s", name, revision, resource.Resource, scope)
		<-stop.Done()
		w.note("%s %s: stop", name, revision)
		return nil
	}}
}

// TestKindComesAndGoes: a target runs while its kind is served.
func TestKindComesAndGoes(t *testing.T) {
	bubble(t, func(w *world) {
		w.runner.Update([]served.Target{w.target("app", "1")})
		w.wait(time.Minute)
		w.wants("without the kind")
		w.isWaiting(true)

		w.serve(&served.Resource{GroupVersionResource: apps, Namespaced: true})
		w.wants("with the kind", "app 1: run apps, namespaced")
		w.isWaiting(false)

		w.tell()
		w.wants("after an event about another kind")

		w.serve(nil)
		w.wants("without the kind again", "app 1: stop")
		w.isWaiting(true)
	})
}

// TestResourceChanges restarts a target when its kind is served with another scope or under
// another name.
func TestResourceChanges(t *testing.T) {
	bubble(t, func(w *world) {
		w.runner.Update([]served.Target{w.target("app", "1")})
		w.serve(&served.Resource{GroupVersionResource: apps, Namespaced: true})
		w.wants("at first", "app 1: run apps, namespaced")
		w.serve(&served.Resource{GroupVersionResource: apps})
		w.wants("with another scope", "app 1: stop", "app 1: run apps, cluster")
		w.serve(&served.Resource{GroupVersionResource: app.GroupVersion().WithResource("applications")})
		w.wants("under another name", "app 1: stop", "app 1: run applications, cluster")
	})
}

// TestDiscoveryFollowsWithDelay: the event of a change comes before discovery shows the change.
func TestDiscoveryFollowsWithDelay(t *testing.T) {
	bubble(t, func(w *world) {
		w.runner.Update([]served.Target{w.target("app", "1")})
		w.serve(&served.Resource{GroupVersionResource: apps, Namespaced: true})
		w.wants("at first", "app 1: run apps, namespaced")
		for _, subscriber := range w.subscribers {
			subscriber()
		}
		w.wait(3 * time.Second)
		w.mu.Lock()
		w.resource = nil
		w.mu.Unlock()
		w.wait(3 * time.Second)
		w.wants("after the delay", "app 1: stop")
	})
}

// TestFailedDiscovery: a kind keeps running while discovery fails.
func TestFailedDiscovery(t *testing.T) {
	bubble(t, func(w *world) {
		w.runner.Update([]served.Target{w.target("app", "1")})
		w.serve(&served.Resource{GroupVersionResource: apps, Namespaced: true})
		w.mu.Lock()
		w.unavailable = errors.New("the API server is unavailable")
		w.mu.Unlock()
		w.tell()
		w.wants("while discovery fails", "app 1: run apps, namespaced")
		w.isWaiting(false)
	})
}

// TestWaitIsQuiet: a kind that is not served costs a look every 5 minutes.
func TestWaitIsQuiet(t *testing.T) {
	bubble(t, func(w *world) {
		w.runner.Update([]served.Target{w.target("app", "1")})
		w.wait(time.Hour)
		w.mu.Lock()
		w.looks = 0
		w.mu.Unlock()
		w.wait(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.looks != 12 {
			t.Errorf("%d looks in an hour, want 12", w.looks)
		}
	})
}

// TestCheckedResource: a target with a failed check waits.
func TestCheckedResource(t *testing.T) {
	bubble(t, func(w *world) {
		target := w.target("app", "1")
		target.Check = func(resource served.Resource) error {
			if !resource.Namespaced {
				return errors.New("it is cluster-scoped")
			}
			return nil
		}
		w.runner.Update([]served.Target{target})
		w.serve(&served.Resource{GroupVersionResource: apps})
		w.wants("cluster-scoped")
		w.isWaiting(true)
		w.serve(&served.Resource{GroupVersionResource: apps, Namespaced: true})
		w.wants("namespaced", "app 1: run apps, namespaced")
		w.isWaiting(false)
	})
}

// TestFailedRun: a target that cannot start waits, and is run again.
func TestFailedRun(t *testing.T) {
	bubble(t, func(w *world) {
		target, runs := w.target("app", "1"), 0
		run := target.Run
		target.Run = func(stop, lead context.Context, resource served.Resource, synced func()) error {
			if runs++; runs == 1 {
				return errors.New("cannot start")
			}
			return run(stop, lead, resource, synced)
		}
		w.resource = &served.Resource{GroupVersionResource: apps, Namespaced: true}
		w.runner.Update([]served.Target{target})
		w.wait(time.Minute)
		w.wants("the second run", "app 1: run apps, namespaced")
		w.isWaiting(false)
	})
}

// TestUpdate starts, restarts and stops targets.
func TestUpdate(t *testing.T) {
	bubble(t, func(w *world) {
		w.resource = &served.Resource{GroupVersionResource: apps, Namespaced: true}
		update := func(targets ...served.Target) {
			w.runner.Update(targets)
			w.wait(time.Second)
			slices.Sort(w.log)
		}
		update(w.target("a", "1"), w.target("b", "1"))
		w.wants("two targets", "a 1: run apps, namespaced", "b 1: run apps, namespaced")
		update(w.target("a", "1"), w.target("b", "2"), w.target("c", "1"))
		w.wants("one has changed, one is new", "b 1: stop", "b 2: run apps, namespaced", "c 1: run apps, namespaced")
		update(w.target("c", "1"))
		w.wants("two are gone", "a 1: stop", "b 2: stop")
	})
}

// TestEnd: Run returns nil at the end of stop, and the cause at the end of lead.
func TestEnd(t *testing.T) {
	lost := errors.New("the lease is lost")
	tests := map[string]struct {
		end  func(*world)
		want error
	}{
		"stop": {func(w *world) { w.stop(nil) }, nil},
		"lead": {func(w *world) { w.lead(lost) }, lost},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.resource = &served.Resource{GroupVersionResource: apps, Namespaced: true}
				w.runner.Update([]served.Target{w.target("app", "1")})
				w.wait(time.Second)
				tc.end(w)
				synctest.Wait()
				if err := <-w.ended; tc.want != nil && !errors.Is(err, tc.want) || tc.want == nil && err != nil {
					t.Errorf("Run: %v, want %v", err, tc.want)
				}
				w.wants("the target", "app 1: run apps, namespaced", "app 1: stop")
			})
		})
	}
}
