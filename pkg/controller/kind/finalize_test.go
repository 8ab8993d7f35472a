// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/test/expect"
)

// finalizes adds a finalizer. Its Finalize returns *err.
func finalizes(err *error) func(*world, *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
	return func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Finalizer = ours
		k.Finalize = func(_ context.Context, p *pass) (event.Event, error) {
			if *err != nil {
				p.Conditions().MarkReconciling("CleanUpFailed", (*err).Error())
			}
			return event.Event{Type: "Normal", Reason: "CleanedUp", Action: "Delete", Note: "Done"}, *err
		}
		k.Finalized = func(p *pass, _ event.Event) {
			w.leftTo = append(w.leftTo, kind.OthersFinalizers(p.Object, ours))
			p.Conditions().MarkReconciling("CleanedUp", "Waiting for others")
		}
	}
}

func TestFinalizer(t *testing.T) {
	refused := apierrors.NewForbidden(v1alpha1.Resource("demoappclusters"), key.Name, errors.New("policy"))
	invalid := apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster").GroupKind(), key.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "nodes"), "", "rule")})
	tests := []struct {
		name       string
		finalizers []string
		refuse     map[string]error
		finalize   error
		wantErr    error
		requests   []string
		events     []string
		// conditions are nil if the object is gone.
		conditions map[string]string
	}{
		{
			"no other finalizer", nil, nil, nil, nil,
			[]string{"patch "},
			[]string{"Normal CleanedUp: Done"},
			nil,
		},
		{
			"Finalize fails", nil, nil, errStep, errStep,
			[]string{"patch status"},
			[]string{"Warning CleanUpFailed: step failed"},
			map[string]string{"Ready": "False CleanUpFailed", "Reconciling": "True CleanUpFailed"},
		},
		{
			"another finalizer keeps the object",
			[]string{theirs},
			nil, nil, nil,
			[]string{"patch status", "patch "},
			[]string{"Warning CleanedUp: Waiting for others", "Normal CleanedUp: Done"},
			map[string]string{"Ready": "False CleanedUp", "Reconciling": "True CleanedUp"},
		},
		{
			"the finalizer cannot be removed", nil,
			map[string]error{"": refused},
			nil, refused,
			[]string{"patch ", "patch status"},
			[]string{`Warning FinalizerFailed: Deletion waits: remove finalizer "example.com/ours": ` + refused.Error()},
			map[string]string{"Ready": "False FinalizerFailed", "Reconciling": "True FinalizerFailed"},
		},
		{
			"the finalizer of an object that another one keeps cannot be removed",
			[]string{theirs},
			map[string]error{"": refused},
			nil, refused,
			[]string{"patch status", "patch ", "patch status"},
			[]string{
				"Warning CleanedUp: Waiting for others",
				`Warning FinalizerFailed: Deletion waits: remove finalizer "example.com/ours": ` + refused.Error(),
			},
			map[string]string{"Ready": "False FinalizerFailed", "Reconciling": "True FinalizerFailed"},
		},
		{
			"the status of an object that another finalizer keeps cannot be written",
			[]string{theirs},
			map[string]error{"status": refused},
			nil, refused,
			[]string{"patch status"},
			nil,
			map[string]string{},
		},
		{
			"each status of an object that another finalizer keeps is invalid",
			[]string{theirs},
			map[string]error{"status": invalid},
			nil, invalid,
			[]string{"patch status", "patch ", "patch status"},
			[]string{"Normal CleanedUp: Done"},
			map[string]string{},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			finalize := test.finalize
			w := newWorld(t, finalizes(&finalize))
			w.change(func(c *cluster) { c.Finalizers = append(slices.Clone(test.finalizers), ours) })
			expect.NoError(t, w.loop.Confirm(t.Context(), w.stored()))
			w.delete()
			maps.Copy(w.refuse, test.refuse)

			_, err := w.pass()

			if !errors.Is(err, test.wantErr) {
				t.Errorf("error is %v", err)
			}
			expect.Equal(t, "requests", test.requests, w.requests)
			expect.Equal(t, "events", test.events, w.events)
			if test.conditions == nil {
				expect.Equal(t, "stored object", (*cluster)(nil), w.stored())
				return
			}
			expect.Equal(t, "conditions", test.conditions, w.conditions())
		})
	}
}

// TestDeletionDespiteFinalizer: the watch reports that an object with the finalizer is deleted. It
// is finalized if this process has worked on it, and if nobody else did or will do so.
func TestDeletionDespiteFinalizer(t *testing.T) {
	clusters := v1alpha1.SchemeGroupVersion.WithResource("demoappclusters")
	tests := []struct {
		name string
		// foreign says that another process has added the finalizer.
		foreign bool
		// exists says that the object only left the selector of the watch.
		exists bool
		errs   []error
		// calls is the number of calls of Finalize. The first one fails, and the second one waits.
		calls    int
		requests []string
		events   []string
	}{
		{
			name: "the finalizer came too late", errs: []error{errStep, nil, nil, nil}, calls: 3,
			requests: []string{"patch ", "patch ", "patch "}, events: []string{"Normal CleanedUp: Done"},
		},
		{name: "finalizer of another process", foreign: true, errs: make([]error, 4)},
		{name: "the object exists", exists: true, errs: make([]error, 4), requests: []string{"patch "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
					k.Finalizer = ours
					k.Finalize = func(context.Context, *pass) (event.Event, error) {
						calls++
						return event.Event{Type: "Normal", Reason: "CleanedUp", Action: "Delete", Note: "Done"},
							[]error{errStep, kind.ErrDeletionWaits, nil}[calls-1]
					}
				})
				ctx, stop := context.WithCancel(t.Context())
				go w.informer.RunWithContext(ctx)
				synctest.Wait()
				if test.foreign {
					w.change(func(c *cluster) { c.Finalizers = []string{ours} })
				} else {
					_, err := w.pass()
					expect.NoError(t, err)
				}
				last := w.stored()
				synctest.Wait()

				expect.NoError(t, w.client.Tracker().Delete(clusters, key.Namespace, key.Name))
				synctest.Wait()
				stop()
				synctest.Wait()
				if test.exists {
					expect.NoError(t, w.client.Tracker().Add(last))
				}
				errs := make([]error, len(test.errs))
				var requests []string
				for i := range errs {
					w.requests = nil
					_, errs[i] = w.loop.Reconcile(t.Context(), key, controller.Deleted)
					requests = append(requests, w.requests...)
				}

				expect.Equal(t, "errors", fmt.Sprint(test.errs), fmt.Sprint(errs))
				expect.Equal(t, "calls of Finalize", test.calls, calls)
				expect.Equal(t, "requests", test.requests, requests)
				expect.Equal(t, "events", test.events, w.events)
			})
		})
	}
}

func TestFinalizerIsAddedBeforeSteps(t *testing.T) {
	none := error(nil)
	w := newWorld(t, finalizes(&none))

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string{"patch "}, w.requests)
	expect.Equal(t, "finalizers", []string{ours}, w.stored().Finalizers)
}

func TestFormerFinalizersAreRemoved(t *testing.T) {
	tests := []struct {
		name     string
		deleted  bool
		requests []string
		want     []string
	}{
		{name: "before the steps", requests: []string{"patch "}, want: []string{theirs}},
		{name: "in a deletion", deleted: true, requests: []string{"patch "}, want: []string{theirs}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
				k.FormerFinalizers = []string{ours}
			})
			w.change(func(c *cluster) { c.Finalizers = []string{ours, theirs} })
			w.sync()
			if test.deleted {
				w.delete()
			}

			_, err := w.pass()
			requests := w.requests
			_, again := w.pass()

			expect.NoError(t, errors.Join(err, again))
			expect.Equal(t, "requests", test.requests, requests)
			expect.Equal(t, "requests of the next pass", []string(nil), w.requests)
			expect.Equal(t, "finalizers", test.want, w.stored().Finalizers)
		})
	}
}

func TestDeletionWithoutFinalizerSendsNoRequest(t *testing.T) {
	w := newWorld(t, reports("AllReady", nil))
	w.change(func(c *cluster) { c.Finalizers = []string{theirs} })
	w.delete()

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string(nil), w.requests)
}

// TestForeignFinalizersAreReported: an object that only finalizers of other clients keep is not
// Ready. A deletion that ends soon costs no status write.
func TestForeignFinalizersAreReported(t *testing.T) {
	tests := map[string]struct {
		finalizer, former string
		removal           []string
	}{
		"no finalizer":            {},
		"a finalizer":             {finalizer: ours, removal: []string{"patch "}},
		"only a former finalizer": {former: ours, removal: []string{"patch "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
				reports("AllReady", nil)(w, k)
				if k.Finalizer = test.finalizer; test.finalizer != "" {
					k.Finalize = func(context.Context, *pass) (event.Event, error) { return event.Event{}, nil }
				}
				if test.former != "" {
					k.FormerFinalizers = []string{test.former}
				}
			})
			_, err := w.pass()
			expect.NoError(t, err)
			w.change(func(c *cluster) {
				c.Finalizers = []string{theirs}
				if test.removal != nil {
					c.Finalizers = append(c.Finalizers, ours)
				}
			})
			w.delete()
			w.events = nil

			w.clock.SetTime(w.stored().DeletionTimestamp.Add(time.Second))
			early, err := w.pass()
			expect.NoError(t, err)
			expect.Equal(t, "requests at first", test.removal, w.requests)
			expect.Equal(t, "next pass", time.Second, early.RequeueAfter)
			expect.Equal(t, "conditions at first", map[string]string{"Ready": "True AllReady"}, w.conditions())

			w.clock.Step(early.RequeueAfter)
			for range 2 {
				_, err = w.pass()
				expect.NoError(t, err)
			}

			expect.Equal(t, "requests after the report", []string(nil), w.requests)
			expect.Equal(t, "conditions", map[string]string{"Ready": "False Deleting", "Reconciling": "True Deleting"}, w.conditions())
			expect.Equal(t, "message", "The deletion waits for finalizers of others: "+theirs, w.stored().Status.Conditions[0].Message)
			expect.Equal(t, "events", []string(nil), w.events)
		})
	}
}
