// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
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
			p.AfterCommit(func(kind.StatusEnd) { after = w.requests })
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
