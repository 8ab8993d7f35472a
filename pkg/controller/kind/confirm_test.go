// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/test/expect"
)

func TestConfirmReturnsNewestVersion(t *testing.T) {
	w := newWorld(t, func(*world, *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {})
	stale := w.stored()
	w.change(func(c *cluster) { c.Labels = map[string]string{"changed": "1"} })
	newest := w.stored()

	err := w.loop.Confirm(t.Context(), newest)
	staleErr := w.loop.Confirm(t.Context(), stale)

	expect.NoError(t, err)
	if !controller.IsPending(staleErr) {
		t.Errorf("error for an older version is %v, want a pending one", staleErr)
	}
	if diff := cmp.Diff(newest, w.stored()); diff != "" {
		t.Errorf("the object was changed (-want +got):\n%s", diff)
	}
	w.delete()
	if err := w.loop.Confirm(t.Context(), newest); !controller.IsPending(err) {
		t.Errorf("error for an object that is gone is %v, want a pending one", err)
	}
	expect.Equal(t, "newest version of an object that is gone", (*cluster)(nil), w.loop.Newest(newest))
}

// TestStaleDeletionIsNotFinalized: the first list of the process shows an object that is being
// deleted, but the API server has another object of its name, or none.
func TestStaleDeletionIsNotFinalized(t *testing.T) {
	tests := map[string]struct {
		again bool
		// requests are the requests of the first pass, and further the requests of the second pass.
		requests, further []string
	}{
		"created again": {true, []string{"patch ", "patch ", "patch status"}, nil},
		"gone":          {false, []string{"patch "}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var steps []string
			none := error(nil)
			w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
				finalizes(&none)(w, k)
				k.Steps = func(_ context.Context, p *pass) error {
					steps = append(steps, string(p.Object.UID))
					p.Conditions().MarkReady("AllReady", "")
					return nil
				}
			})
			w.change(func(c *cluster) { c.Finalizers = []string{ours} })
			w.delete()
			w.change(func(c *cluster) { c.Finalizers = nil })
			var living []string
			if test.again {
				w.create()
				living = []string{string(w.stored().UID)}
			}

			_, err := w.pass()
			expect.NoError(t, err)
			first := w.requests
			_, err = w.pass()
			expect.NoError(t, err)

			expect.Equal(t, "requests of the first pass", test.requests, first)
			expect.Equal(t, "requests of the second pass", test.further, w.requests)
			if slices.ContainsFunc(w.events, func(event string) bool { return event == "Normal CleanedUp: Done" }) {
				t.Error("the deletion was finalized")
			}
			expect.Equal(t, "UIDs of the objects in passes", living, slices.Compact(steps))
			expect.Equal(t, "object is there", test.again, w.stored() != nil)
		})
	}
}

// TestStaleObjectIsConfirmedOnce: steps that doubt the cached version stop the pass, and the
// next pass has the newest version.
func TestStaleObjectIsConfirmedOnce(t *testing.T) {
	var generations []int64
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(ctx context.Context, p *pass) error {
			generations = append(generations, p.Object.Generation)
			p.Conditions().MarkReady("AllReady", "")
			return p.Confirm(ctx)
		}
	})
	w.change(func(c *cluster) { c.Spec.Template.Spec.Message = "changed" })

	_, staleErr := w.pass()
	stale := w.requests
	_, err := w.pass()

	if !controller.IsPending(staleErr) {
		t.Errorf("error for an older version is %v, want a pending one", staleErr)
	}
	expect.NoError(t, err)
	expect.Equal(t, "requests with an older version", []string{"patch status"}, stale)
	expect.Equal(t, "requests with the newest version", []string{"patch status"}, w.requests)
	expect.Equal(t, "generations", []int64{1, 2}, generations)
	expect.Equal(t, "observed generation", int64(2), w.stored().Status.Conditions[0].ObservedGeneration)
}

// TestStatusIsWrittenToTheNewestVersion: another client changes the object during a pass.
func TestStatusIsWrittenToTheNewestVersion(t *testing.T) {
	w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(_ context.Context, p *pass) error {
			w.change(func(c *cluster) { c.Labels = map[string]string{"changed": "1"} }) //nolint:contextcheck // It has the test's context.
			w.requests = nil
			p.Conditions().MarkReady("AllReady", "")
			return nil
		}
	})

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string{"patch status", "patch status", "patch status"}, w.requests)
	expect.Equal(t, "conditions", map[string]string{"Ready": "True AllReady"}, w.conditions())
	expect.Equal(t, "labels", map[string]string{"changed": "1"}, w.stored().Labels)
}

// TestObjectOfTheSameNameDoesNotGetTheStatus: during a pass, the object is deleted and created
// again.
func TestObjectOfTheSameNameDoesNotGetTheStatus(t *testing.T) {
	w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(_ context.Context, p *pass) error {
			expect.NoError(w.t, w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Delete(t.Context(), key.Name, metav1.DeleteOptions{})) //nolint:contextcheck // It has the test's context.
			w.create()                                                                                                                        //nolint:contextcheck // It has the test's context.
			w.requests = nil
			p.Conditions().MarkReady("AllReady", "")
			return nil
		}
	})

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string{"patch status", "patch status"}, w.requests)
	expect.Equal(t, "events", []string(nil), w.events)
	expect.Equal(t, "conditions of the new object", map[string]string{}, w.conditions())
}
