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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	ours   = "example.com/ours"
	theirs = "example.com/theirs"
)

var (
	key     = cache.NewObjectName("ns", "web")
	errStep = errors.New("step failed")
)

type (
	cluster = v1alpha1.DemoAppCluster
	pass    = kind.Pass[*cluster]
	loop    = kind.Loop[*cluster, v1alpha1.DemoAppClusterStatus]
)

// world is a loop over DemoAppClusters with a fake API server. The test updates the cache
// with sync.
type world struct {
	t        *testing.T
	client   *demofake.Clientset
	informer cache.SharedIndexInformer
	clock    *clocktesting.FakeClock
	loop     *loop

	requests []string
	events   []string
	// refuse maps a subresource to the error of its patches; "" is the object itself.
	refuse map[string]error
	// forgotten counts the calls of Forget.
	forgotten int
	// leftTo are the remaining finalizers of other clients at the calls of Finalized.
	leftTo []string
	// refusal is why objects are not reconciled.
	refusal string
	// shards are the namespaces whose objects are reconciled; nil for all.
	shards *controller.Shards
}

// newWorld returns a world with the object "web". change edits the default Definition.
func newWorld(t *testing.T, change func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus])) *world {
	t.Helper()
	w := &world{
		t: t, client: demofake.NewClientset(), refuse: map[string]error{},
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	controllertest.Stamp(w.client)
	w.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.requests = append(w.requests, action.GetVerb()+" "+action.GetSubresource())
		err := w.refuse[action.GetSubresource()]
		return action.GetVerb() == "patch" && err != nil, nil, err
	})
	w.informer = externalversions.NewSharedInformerFactory(w.client, 0).Demo().V1alpha1().DemoAppClusters().Informer()
	k := kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]{
		Name: "clusters", GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster"), FieldManager: "test",
		Client: func(namespace string) controller.Patcher[*cluster] {
			return w.client.DemoV1alpha1().DemoAppClusters(namespace)
		},
		Status:     func(c *cluster) *v1alpha1.DemoAppClusterStatus { return &c.Status },
		Conditions: func(s *v1alpha1.DemoAppClusterStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      func(context.Context, *pass) error { return nil },
		Forget:     func(cache.ObjectName) { w.forgotten++ },
	}
	change(w, &k)
	var err error
	w.loop, err = kind.New(k, kind.Deps{
		Informers: map[string]cache.SharedIndexInformer{"": w.informer}, Recorder: w, Clock: w.clock, ResyncPeriod: time.Hour,
		Refuse: func(string) string { return w.refusal }, Shards: w.shards,
	})
	expect.NoError(t, err)
	w.create()
	w.sync()
	w.requests = nil
	return w
}

func (w *world) create() {
	w.t.Helper()
	_, err := w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Create(w.t.Context(),
		&cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	w.events = append(w.events, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

// stored returns the object from the API server, or nil if the object is gone.
func (w *world) stored() *cluster {
	w.t.Helper()
	found, err := w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Get(context.Background(), key.Name, metav1.GetOptions{})
	w.requests = w.requests[:max(0, len(w.requests)-1)]
	if apierrors.IsNotFound(err) {
		return nil
	}
	expect.NoError(w.t, err)
	return found
}

// sync updates the cache from the API server.
func (w *world) sync() {
	w.t.Helper()
	var objects []any
	if found := w.stored(); found != nil {
		objects = append(objects, found)
	}
	expect.NoError(w.t, w.informer.GetIndexer().Replace(objects, ""))
}

// pass makes a pass with the current cache.
func (w *world) pass() (controller.Result, error) {
	w.t.Helper()
	w.requests = nil
	return w.loop.Reconcile(w.t.Context(), key, controller.SpecChange)
}

// change updates the object as another client.
func (w *world) change(change func(*cluster)) {
	w.t.Helper()
	found := w.stored().DeepCopy()
	change(found)
	_, err := w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Update(w.t.Context(), found, metav1.UpdateOptions{})
	expect.NoError(w.t, err)
}

func (w *world) delete() {
	w.t.Helper()
	expect.NoError(w.t, w.client.DemoV1alpha1().DemoAppClusters(key.Namespace).Delete(w.t.Context(), key.Name, metav1.DeleteOptions{}))
	w.sync()
}

// conditions returns the status and reason of each condition of the stored object.
func (w *world) conditions() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, c := range w.stored().Status.Conditions {
		found[c.Type] = string(c.Status) + " " + c.Reason
	}
	return found
}

// reports makes Steps set the condition Ready with this reason, and return err.
func reports(reason string, err error) func(*world, *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
	return func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(_ context.Context, p *pass) error {
			p.Conditions().MarkReady(reason, "It is "+reason)
			return err
		}
	}
}

func TestStatusIsWrittenOnce(t *testing.T) {
	w := newWorld(t, reports("AllReady", nil))

	result, err := w.pass()
	expect.NoError(t, err)
	first := w.requests
	_, err = w.pass() // The cache does not have the write of the first pass yet.
	expect.NoError(t, err)

	expect.Equal(t, "requests of the first pass", []string{"patch status"}, first)
	expect.Equal(t, "requests of the second pass", []string(nil), w.requests)
	expect.Equal(t, "events", []string{"Normal AllReady: It is AllReady"}, w.events)
	expect.Equal(t, "conditions", map[string]string{"Ready": "True AllReady"}, w.conditions())
	if result.RequeueAfter < 50*time.Minute || result.RequeueAfter > 70*time.Minute {
		t.Errorf("next pass in %v", result.RequeueAfter)
	}
}

func TestStatusIsWrittenAfterFailedStep(t *testing.T) {
	w := newWorld(t, reports("StepFailed", errStep))

	_, err := w.pass()

	if !errors.Is(err, errStep) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions", map[string]string{"Ready": "True StepFailed"}, w.conditions())
}

// TestRefusedNamespace: nothing is done for an object of a refused namespace, and its status says
// why. An object that had a finalizer before is finalized.
func TestRefusedNamespace(t *testing.T) {
	steps, finalized := 0, 0
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Finalizer = ours
		k.Steps = func(context.Context, *pass) error {
			steps++
			return nil
		}
		k.Finalize = func(context.Context, *pass) (event.Event, error) {
			finalized++
			return event.Event{}, nil
		}
	})
	w.refusal = "kube-system is a system namespace"
	for range 2 {
		if result, err := w.pass(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("pass: %+v, %v", result, err)
		}
		w.sync()
	}
	stored := w.stored()
	stalled := meta.FindStatusCondition(stored.Status.Conditions, apimeta.ConditionStalled)
	if steps > 0 || len(stored.Finalizers) > 0 || stalled == nil || stalled.Reason != apimeta.ReasonSystemNamespace || stalled.Message != w.refusal {
		t.Errorf("%d steps, finalizers %v, Stalled is %+v", steps, stored.Finalizers, stalled)
	}

	w.change(func(c *cluster) { c.Finalizers = []string{ours} })
	w.delete()
	w.sync()
	if _, err := w.pass(); err != nil || finalized != 1 {
		t.Errorf("finalized %d times: %v", finalized, err)
	}
}

func TestPendingErrorWritesNoStatus(t *testing.T) {
	w := newWorld(t, reports("StepFailed", &controller.UnfilledError{}))

	_, err := w.pass()

	if !controller.IsPending(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "requests", []string(nil), w.requests)
}

func TestEventAfterGenerationChange(t *testing.T) {
	w := newWorld(t, reports("AllReady", nil))
	_, err := w.pass()
	expect.NoError(t, err)
	w.change(func(c *cluster) { c.Spec.Template.Spec.Message = "changed" })
	w.sync()

	_, err = w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "number of events", 2, len(w.events))
}

func TestHeldStatus(t *testing.T) {
	passes := 0
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(_ context.Context, p *pass) error {
			passes++
			p.Object.Status.Ready = p.Object.Status.Ready*10 + int32(passes)
			return nil
		}
		k.Hold = func(v1alpha1.DemoAppClusterStatus, v1alpha1.DemoAppClusterStatus) time.Duration { return time.Second }
	})

	for range 2 {
		_, err := w.pass()
		expect.NoError(t, err)
		expect.Equal(t, "requests while the status is held", []string(nil), w.requests)
	}
	w.clock.Step(time.Second)
	_, err := w.pass()
	expect.NoError(t, err)

	expect.Equal(t, "requests after the hold", []string{"patch status"}, w.requests)
	expect.Equal(t, "status, which each pass continues", int32(123), w.stored().Status.Ready)
}

func TestWritesAreKeptApart(t *testing.T) {
	reason := 0
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Interval = time.Second
		k.Steps = func(_ context.Context, p *pass) error {
			reason++
			p.Conditions().MarkReady(fmt.Sprintf("Reason%d", reason), "")
			return errStep
		}
	})

	_, _ = w.pass()
	first := w.requests
	_, err := w.pass()
	second := w.requests
	w.clock.Step(time.Second)
	_, _ = w.pass()

	expect.Equal(t, "requests of the first pass", []string{"patch status"}, first)
	expect.Equal(t, "requests within the interval", []string(nil), second)
	expect.Equal(t, "requests after it", []string{"patch status"}, w.requests)
	if !errors.Is(err, errStep) {
		t.Errorf("error within the interval is %v", err)
	}
}

func TestCommitWithinPass(t *testing.T) {
	var after []string
	w := newWorld(t, func(w *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Steps = func(ctx context.Context, p *pass) error {
			p.AfterCommit(func(bool) { after = w.requests })
			p.Conditions().MarkReconciling("RollingOut", "")
			if err := p.Commit(ctx); err != nil {
				return err
			}
			p.Conditions().MarkReady("AllReady", "")
			p.RequeueAfter(time.Minute)
			return nil
		}
	})

	result, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests before the call of AfterCommit", []string{"patch status", "patch status"}, after)
	expect.Equal(t, "next pass", time.Minute, result.RequeueAfter)
}

func TestDeletedObjectIsForgotten(t *testing.T) {
	w := newWorld(t, reports("AllReady", nil))
	w.delete()

	result, err := w.pass()
	_, again := w.loop.Reconcile(t.Context(), key, controller.Deleted)

	expect.NoError(t, errors.Join(err, again))
	expect.Equal(t, "result", controller.Result{}, result)
	expect.Equal(t, "calls of Forget", 1, w.forgotten)
	expect.Equal(t, "requests", []string(nil), w.requests)
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

// TestHeldStatusHidesNoDeletion: the stored status is Ready, and a delayed status write is not
// Ready.
func TestHeldStatusHidesNoDeletion(t *testing.T) {
	ready := true
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Interval = time.Minute
		k.Steps = func(_ context.Context, p *pass) error {
			if ready {
				p.Conditions().MarkReady("AllReady", "")
			} else {
				p.Conditions().MarkReconciling("RollingOut", "")
			}
			return nil
		}
	})
	_, err := w.pass()
	expect.NoError(t, err)
	ready = false
	_, err = w.pass()
	expect.NoError(t, err)
	expect.Equal(t, "conditions while the status is held", map[string]string{"Ready": "True AllReady"}, w.conditions())
	w.change(func(c *cluster) { c.Finalizers = []string{theirs} })
	w.delete()

	w.clock.SetTime(w.stored().DeletionTimestamp.Add(3 * time.Second))
	_, err = w.pass()
	expect.NoError(t, err)

	expect.Equal(t, "conditions", map[string]string{"Ready": "False Deleting", "Reconciling": "True Deleting"}, w.conditions())
}

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
		k.Finalized = func(p *pass) {
			w.leftTo = append(w.leftTo, kind.OthersFinalizers(p.Object, ours))
			p.Conditions().MarkReconciling("CleanedUp", "Waiting for others")
		}
	}
}

func TestFinalizer(t *testing.T) {
	refused := apierrors.NewForbidden(v1alpha1.Resource("demoappclusters"), key.Name, errors.New("policy"))
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

// TestDeletionDespiteFinalizer: the watch reports that an object with the finalizer is deleted. It is
// finalized if this process has worked on it, and if nobody else did or will do so.
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
