// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/test/expect"
)

// ends adds a finalizer whose functions note their calls.
func ends(calls *[]string, orphaned bool, orphanedErr, letGoErr *error) func(*world, *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
	return func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Finalizer = ours
		k.Finalize = func(context.Context, *pass) (event.Event, error) {
			*calls = append(*calls, "finalize")
			return event.Normal("CleanedUp", "Delete", "Done"), nil
		}
		k.LetGo = func(context.Context, *pass) (event.Event, error) {
			*calls = append(*calls, "let go")
			return event.Normal("LetGo", "Delete", "Kept"), *letGoErr
		}
		k.Orphaned = func(context.Context, *pass) (bool, error) {
			*calls = append(*calls, "look")
			return orphaned, *orphanedErr
		}
		k.Finalized = func(*pass, event.Event) { *calls = append(*calls, "finalized") }
	}
}

// TestPropagationPolicyDecides: the finalizer of the policy, or the lost owner references, decide
// between Finalize and LetGo.
func TestPropagationPolicyDecides(t *testing.T) {
	away := errors.New("no answer")
	tests := []struct {
		name       string
		finalizers []string
		orphaned   bool
		lookErr    error
		calls      []string
		events     []string
		conditions map[string]string // nil if the object is gone
	}{
		{name: "background", calls: []string{"look", "finalize"}, events: []string{"Normal CleanedUp: Done"}},
		{
			name: "orphan", finalizers: []string{metav1.FinalizerOrphanDependents},
			calls: []string{"let go"}, events: []string{"Normal LetGo: Kept"}, conditions: map[string]string{},
		},
		{
			name: "orphan, beside a finalizer of another client", finalizers: []string{metav1.FinalizerOrphanDependents, theirs},
			calls: []string{"let go"}, events: []string{"Normal LetGo: Kept"}, conditions: map[string]string{},
		},
		{name: "orphan, after the garbage collector", orphaned: true, calls: []string{"look", "let go"}, events: []string{"Normal LetGo: Kept"}},
		{
			// Only foreground deletion is requested, whatever the state of the dependents.
			name: "foreground", finalizers: []string{metav1.FinalizerDeleteDependents}, orphaned: true,
			calls: []string{"finalize", "finalized", "finalized"}, events: []string{"Normal CleanedUp: Done"}, conditions: map[string]string{},
		},
		{
			name: "the dependents cannot be read", lookErr: away, calls: []string{"look"},
			events:     []string{"Warning FinalizerFailed: Deletion waits: look whether the deletion keeps the dependents: no answer"},
			conditions: map[string]string{"Ready": "False FinalizerFailed", "Reconciling": "True FinalizerFailed"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			none := error(nil)
			w := newWorld(t, ends(&calls, test.orphaned, &test.lookErr, &none))
			w.change(func(c *cluster) { c.Finalizers = append(slices.Clone(test.finalizers), ours) })
			expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
			w.delete()

			_, err := w.pass()

			if !errors.Is(err, test.lookErr) {
				t.Errorf("error is %v", err)
			}
			expect.Equal(t, "calls", test.calls, calls)
			expect.Equal(t, "events", test.events, w.events)
			if test.conditions == nil {
				expect.Equal(t, "stored object", (*cluster)(nil), w.stored())
				return
			}
			expect.Equal(t, "conditions", test.conditions, w.conditions())
		})
	}
}

// TestDeletionSeen: the time of the deletion is by the clock of this process. The clock of the API server
// may be ahead or behind.
func TestDeletionSeen(t *testing.T) {
	for name, finalizers := range map[string][]string{"background": {ours}, "orphan": {metav1.FinalizerOrphanDependents, ours}} {
		t.Run(name, func(t *testing.T) {
			var seen []time.Time
			w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
				k.Finalizer = ours
				wait := func(_ context.Context, p *pass) (event.Event, error) {
					seen = append(seen, p.DeletionSeen)
					return event.Event{}, kind.ErrDeletionWaits
				}
				k.Finalize, k.LetGo = wait, wait
			})
			w.change(func(c *cluster) { c.Finalizers = finalizers })
			expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
			w.delete()
			began := w.stored().DeletionTimestamp.Add(-time.Hour)
			w.clock.SetTime(began)

			_, err1 := w.pass()
			w.clock.SetTime(began.Add(time.Minute))
			_, err2 := w.pass()

			expect.NoError(t, errors.Join(err1, err2))
			expect.Equal(t, "times", []time.Time{began, began}, seen)
		})
	}
}

// TestOrphanOutlivesGarbageCollector: the garbage collector removes the finalizer of the policy before
// a pass has succeeded. The dependents show nothing.
func TestOrphanOutlivesGarbageCollector(t *testing.T) {
	tests := map[string]func(w *world, letGoErr *error){
		"before the first pass": func(*world, *error) {},
		"after a failed pass": func(w *world, letGoErr *error) {
			*letGoErr = errStep
			if _, err := w.pass(); !errors.Is(err, errStep) {
				w.t.Errorf("error is %v", err)
			}
			*letGoErr = nil
		},
		"during the removal of the own finalizer": func(w *world, _ *error) {
			w.refuse[""] = apierrors.NewConflict(v1alpha1.Resource("demoappclusters"), key.Name, errors.New("changed"))
			if _, err := w.pass(); !apierrors.IsConflict(err) {
				w.t.Errorf("error is %v", err)
			}
			delete(w.refuse, "")
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				var none, letGoErr error
				w := newWorld(t, ends(&calls, false, &none, &letGoErr))
				w.change(func(c *cluster) { c.Finalizers = []string{metav1.FinalizerOrphanDependents, ours} })
				expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
				ctx, stop := context.WithCancel(t.Context())
				go w.informer.RunWithContext(ctx)
				synctest.Wait()
				expect.NoError(t, w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Delete(t.Context(), key.Name, metav1.DeleteOptions{}))
				synctest.Wait()
				before(w, &letGoErr)
				w.change(func(c *cluster) { c.Finalizers = []string{ours} })
				synctest.Wait()
				stop()
				synctest.Wait()

				_, err := w.pass()

				expect.NoError(t, err)
				expect.Equal(t, "last call", "let go", calls[len(calls)-1])
				expect.Equal(t, "stored object", (*cluster)(nil), w.stored())
			})
		})
	}
}

// TestSuccessorIsNotOrphaned: the deletion of an object says nothing about the next one of its name.
func TestSuccessorIsNotOrphaned(t *testing.T) {
	var calls []string
	none := error(nil)
	w := newWorld(t, ends(&calls, false, &none, &none))
	end := func(finalizers ...string) {
		w.change(func(c *cluster) { c.Finalizers = append([]string{ours}, finalizers...) })
		expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
		w.delete()
		_, err := w.pass()
		expect.NoError(t, err)
	}
	end(metav1.FinalizerOrphanDependents)
	w.change(func(c *cluster) { c.Finalizers = nil })
	w.create()
	end()

	expect.Equal(t, "calls", []string{"let go", "look", "finalize"}, calls)
}

// TestLetGoByDefault: a kind without LetGo changes nothing, and the event says so.
func TestLetGoByDefault(t *testing.T) {
	var calls []string
	none := error(nil)
	w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		ends(&calls, false, &none, &none)(w, k)
		k.LetGo, k.Orphaned = nil, nil
	})
	w.change(func(c *cluster) { c.Finalizers = []string{metav1.FinalizerOrphanDependents, ours} })
	expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
	w.delete()

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "calls", []string(nil), calls)
	expect.Equal(t, "events", []string{"Normal Orphaned: Kept all objects, because the propagation policy of the deletion is Orphan"}, w.events)
	expect.Equal(t, "finalizers", []string{metav1.FinalizerOrphanDependents}, w.stored().Finalizers)
}

// TestOrphanedDespiteFinalizer: an object that is gone without a pass over its deletion is let go if
// its dependents have lost it as their owner.
func TestOrphanedDespiteFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		none := error(nil)
		w := newWorld(t, ends(&calls, true, &none, &none))
		ctx, stop := context.WithCancel(t.Context())
		go w.informer.RunWithContext(ctx)
		synctest.Wait()
		_, err := w.pass()
		expect.NoError(t, err)
		synctest.Wait()
		expect.NoError(t, w.client.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("demoappclusters"), key.Namespace, key.Name))
		synctest.Wait()
		stop()
		synctest.Wait()

		_, err = w.loop.Reconcile(t.Context(), key, controller.Deleted)

		expect.NoError(t, err)
		expect.Equal(t, "calls", []string{"look", "let go"}, calls)
	})
}
