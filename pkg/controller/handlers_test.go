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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/controllertest"
)

type handler = cache.TypedResourceEventHandler[*corev1.Pod]

// recorder is an Enqueuer that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) Enqueue(key cache.ObjectName, why Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, key.String()+" "+why.String())
}

// take returns the calls of Enqueue since the last take, sorted.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := slices.Sorted(slices.Values(r.calls))
	r.calls = nil
	return calls
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "a", UID: "uid-1", ResourceVersion: "1", Generation: 1,
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func version(rv string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = rv } }
func uid(id types.UID) func(*corev1.Pod)  { return func(p *corev1.Pod) { p.UID = id } }
func annotated(k, v string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v) }
}

func respecified(p *corev1.Pod) { p.Generation++ }

func deleting(p *corev1.Pod) {
	now := metav1.NewTime(time.Unix(1, 0))
	p.DeletionTimestamp = &now
}

func ownedBy(apiVersion, kind, name string, id types.UID) func(*corev1.Pod) {
	isController := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: id, Controller: &isController,
		})
	}
}

func gone(p *corev1.Pod) cache.DeletedObject[*corev1.Pod] {
	return cache.DeletedObject[*corev1.Pod]{OptionalObj: p}
}

func tombstone(p *corev1.Pod) cache.DeletedObject[*corev1.Pod] {
	d := cache.DeletedObject[*corev1.Pod]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "ns/a"}}
	if p != nil {
		d.OptionalObj, d.FinalStateUnknown.Obj = p, p
	}
	return d
}

func TestSpecHandler(t *testing.T) {
	requested := "demo.example.com/requested-at"
	tests := []struct {
		name  string
		event func(h handler)
		want  []string
	}{
		{"appears", func(h handler) { h.OnAdd(pod(), false) }, []string{"ns/a SpecChange"}},
		{"in the initial list", func(h handler) { h.OnAdd(pod(), true) }, []string{"ns/a SpecChange"}},
		{"status", func(h handler) { h.OnUpdate(pod(), pod(version("2"))) }, nil},
		{"spec", func(h handler) { h.OnUpdate(pod(), pod(version("2"), respecified)) }, []string{"ns/a SpecChange"}},
		{"deletion requested", func(h handler) { h.OnUpdate(pod(), pod(version("2"), deleting)) }, []string{"ns/a SpecChange"}},
		{"status while deleting", func(h handler) { h.OnUpdate(pod(deleting), pod(version("2"), deleting)) }, nil},
		{
			"named annotation", func(h handler) { h.OnUpdate(pod(), pod(version("2"), annotated(requested, "now"))) },
			[]string{"ns/a SpecChange"},
		},
		{
			"named annotation, empty", func(h handler) { h.OnUpdate(pod(), pod(version("2"), annotated(requested, ""))) },
			[]string{"ns/a SpecChange"},
		},
		{"other annotation", func(h handler) { h.OnUpdate(pod(), pod(version("2"), annotated("x", "y"))) }, nil},
		{"listed again", func(h handler) { h.OnUpdate(pod(), pod()) }, nil},
		{
			"created again", func(h handler) { h.OnUpdate(pod(), pod(version("2"), uid("uid-2"))) },
			[]string{"ns/a SpecChange|Deleted"},
		},
		{"gone", func(h handler) { h.OnDelete(gone(pod())) }, []string{"ns/a Deleted"}},
		{"gone, tombstone", func(h handler) { h.OnDelete(tombstone(pod())) }, []string{"ns/a Deleted"}},
		{"gone, tombstone without the object", func(h handler) { h.OnDelete(tombstone(nil)) }, []string{"ns/a Deleted"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q recorder
			test.event(SpecHandler[*corev1.Pod](&q, requested))
			if got := q.take(); !slices.Equal(got, test.want) {
				t.Errorf("enqueued %v, want %v", got, test.want)
			}
		})
	}
}

func TestOwnedHandler(t *testing.T) {
	const api = "demo.example.com/v1alpha1"
	mine := ownedBy(api, "DemoApp", "app", "app-1")
	other := ownedBy(api, "DemoApp", "other", "other-1")
	owners := map[string]types.UID{"ns/app": "app-1", "ns/other": "other-1"}
	tests := []struct {
		name  string
		event func(h handler)
		want  []string
	}{
		{"appears", func(h handler) { h.OnAdd(pod(mine), false) }, []string{"ns/app Drift"}},
		{"changes", func(h handler) { h.OnUpdate(pod(mine), pod(mine, version("2"))) }, []string{"ns/app Drift"}},
		{"is gone", func(h handler) { h.OnDelete(gone(pod(mine))) }, []string{"ns/app Drift"}},
		{"is gone, tombstone", func(h handler) { h.OnDelete(tombstone(pod(mine))) }, []string{"ns/app Drift"}},
		{"is gone, tombstone without the object", func(h handler) { h.OnDelete(tombstone(nil)) }, nil},
		{"listed again", func(h handler) { h.OnUpdate(pod(mine), pod(mine)) }, nil},
		{"without an owner", func(h handler) { h.OnAdd(pod(), false) }, nil},
		{
			"another version of the owner's API",
			func(h handler) { h.OnAdd(pod(ownedBy("demo.example.com/v1", "DemoApp", "app", "app-1")), false) },
			[]string{"ns/app Drift"},
		},
		{"owner of another kind", func(h handler) { h.OnAdd(pod(ownedBy(api, "Website", "app", "app-1")), false) }, nil},
		{
			"owner of another group",
			func(h handler) { h.OnAdd(pod(ownedBy("example.com/v1alpha1", "DemoApp", "app", "app-1")), false) }, nil,
		},
		{
			"UID of a deleted owner of the same name",
			func(h handler) { h.OnAdd(pod(ownedBy(api, "DemoApp", "app", "app-0")), false) }, nil,
		},
		{"unknown owner", func(h handler) { h.OnAdd(pod(ownedBy(api, "DemoApp", "none", "none-1")), false) }, nil},
		{
			"changes its owner", func(h handler) { h.OnUpdate(pod(mine), pod(other, version("2"))) },
			[]string{"ns/app Drift", "ns/other Drift"},
		},
		{
			"loses its owner", func(h handler) { h.OnUpdate(pod(mine), pod(version("2"))) }, []string{"ns/app Drift"},
		},
		{
			"replaced by an object without an owner", func(h handler) { h.OnUpdate(pod(mine), pod(uid("uid-2"), version("2"))) },
			[]string{"ns/app Drift"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q recorder
			lookup := func(key cache.ObjectName) (types.UID, bool) {
				id, ok := owners[key.String()]
				return id, ok
			}
			owner := schema.GroupKind{Group: "demo.example.com", Kind: "DemoApp"}
			test.event(OwnedHandler(&q, owner, lookup, Always[*corev1.Pod](Drift)))
			if got := q.take(); !slices.Equal(got, test.want) {
				t.Errorf("enqueued %v, want %v", got, test.want)
			}
		})
	}
}

func TestMapHandler(t *testing.T) {
	ref := func(name string) func(*corev1.Pod) { return annotated("ref", name) }
	keys := func(p *corev1.Pod) []cache.ObjectName {
		return []cache.ObjectName{cache.NewObjectName("ns", p.Annotations["ref"])}
	}
	why := func(before, after *corev1.Pod) Reason {
		switch {
		case before == nil:
			return SpecChange
		case after == nil:
			return Deleted
		case before.Generation != after.Generation:
			return Drift
		default:
			return 0
		}
	}
	tests := []struct {
		name  string
		event func(h handler)
		want  []string
	}{
		{"appears", func(h handler) { h.OnAdd(pod(ref("x")), false) }, []string{"ns/x SpecChange"}},
		{"is gone", func(h handler) { h.OnDelete(tombstone(pod(ref("x")))) }, []string{"ns/x Deleted"}},
		{"no reason", func(h handler) { h.OnUpdate(pod(ref("x")), pod(ref("x"), version("2"))) }, nil},
		{
			"one call for the same key", func(h handler) { h.OnUpdate(pod(ref("x")), pod(ref("x"), version("2"), respecified)) },
			[]string{"ns/x Drift"},
		},
		{
			"maps to another key", func(h handler) { h.OnUpdate(pod(ref("x")), pod(ref("y"), version("2"), respecified)) },
			[]string{"ns/x Drift", "ns/y Drift"},
		},
		{
			"created again, maps to another key", func(h handler) { h.OnUpdate(pod(ref("x")), pod(ref("y"), version("2"), uid("uid-2"))) },
			[]string{"ns/x Deleted", "ns/y SpecChange"},
		},
		{
			"without resource versions, as in fake clientsets",
			func(h handler) { h.OnUpdate(pod(ref("x"), version("")), pod(ref("x"), version(""), respecified)) },
			[]string{"ns/x Drift"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var q recorder
			test.event(MapHandler(&q, keys, why))
			if got := q.take(); !slices.Equal(got, test.want) {
				t.Errorf("enqueued %v, want %v", got, test.want)
			}
		})
	}
}

// flakyWatch is a watch that a test can interrupt.
type flakyWatch struct {
	tracker clienttesting.ObjectTracker
	inner   watch.Interface
	outer   *watch.RaceFreeFakeWatcher
}

func (f *flakyWatch) react(action clienttesting.Action) (bool, watch.Interface, error) {
	var options metav1.ListOptions
	if w, ok := action.(clienttesting.WatchActionImpl); ok {
		options = w.ListOptions
	}
	inner, err := f.tracker.Watch(action.GetResource(), action.GetNamespace(), options)
	if err != nil {
		return true, nil, err
	}
	outer := watch.NewRaceFreeFake()
	f.inner, f.outer = inner, outer
	go func() {
		for event := range inner.ResultChan() {
			outer.Action(event.Type, event.Object)
		}
	}()
	return true, outer, nil
}

// interrupt stops the watch, runs changes, and makes the informer list again.
func (f *flakyWatch) interrupt(t *testing.T, changes func() error) {
	t.Helper()
	f.inner.Stop()
	if err := changes(); err != nil {
		t.Fatal(err)
	}
	expired := apierrors.NewResourceExpired("too old").Status()
	f.outer.Action(watch.Error, &expired)
	advance(time.Minute)
}

func TestHandlersWithInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clientset := fake.NewClientset()
		controllertest.Stamp(clientset)
		flaky := &flakyWatch{tracker: clientset.Tracker()}
		clientset.PrependWatchReactor("pods", flaky.react)
		factory := informers.NewSharedInformerFactory(clientset, time.Minute)
		informer := factory.Core().V1().Pods().Informer()
		var q recorder
		synced, err := AddHandler("pods", informer, SpecHandler[*corev1.Pod](&q))
		if err != nil {
			t.Fatal(err)
		}
		if synced.Name != "pods" || synced.HasSynced() {
			t.Errorf("before the start: %s, synced %t", synced.Name, synced.HasSynced())
		}
		var last any
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			DeleteFunc: func(obj any) { last = obj },
		}); err != nil {
			t.Fatal(err)
		}

		play(ctx, t, clientset.CoreV1().Pods("ns"), factory, flaky, &q)

		if !synced.HasSynced() {
			t.Error("not synced")
		}
		if _, ok := last.(cache.DeletedFinalStateUnknown); !ok {
			t.Errorf("the informer delivered %T, want a tombstone", last)
		}
		cancel()
		factory.Shutdown()
		flaky.inner.Stop()
	})
}

// play creates, changes and deletes a pod, and checks the keys that each step enqueues.
func play(
	ctx context.Context, t *testing.T, pods typedcorev1.PodInterface,
	factory informers.SharedInformerFactory, flaky *flakyWatch, q *recorder,
) {
	create := func() error {
		_, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		return err
	}
	remove := func() error { return pods.Delete(ctx, "a", metav1.DeleteOptions{}) }
	expect := func(step string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := q.take(); !slices.Equal(got, want) {
			t.Errorf("%s: enqueued %v, want %v", step, got, want)
		}
	}
	err := create()
	factory.StartWithContext(ctx)
	expect("initial list", err, "ns/a SpecChange")
	advance(time.Hour)
	expect("resyncs of the factory", nil)

	cached, err := factory.Core().V1().Pods().Lister().Pods("ns").Get("a")
	if err != nil {
		t.Fatal(err)
	}
	controllertest.GuardMutations(t, cached)
	p := cached.DeepCopy()
	p.Status.Message = "busy"
	p, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
	expect("status", err)
	p.Spec.NodeName = "node"
	_, err = pods.Update(ctx, p, metav1.UpdateOptions{})
	expect("spec", err, "ns/a SpecChange")

	flaky.interrupt(t, func() error { return nil })
	expect("new list without a change", nil)
	flaky.interrupt(t, func() error { return errors.Join(remove(), create()) })
	expect("created again while the watch is interrupted", nil, "ns/a SpecChange|Deleted")
	expect("deleted", remove(), "ns/a Deleted")
	expect("created", create(), "ns/a SpecChange")
	flaky.interrupt(t, remove)
	expect("deleted while the watch is interrupted", nil, "ns/a Deleted")
}

func TestMetadataInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		meta := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: pod(ownedBy("demo.example.com/v1alpha1", "DemoApp", "app", "app-1")).ObjectMeta,
		}
		client := metadatafake.NewSimpleMetadataClient(scheme, meta)
		deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		factory := metadatainformer.NewSharedInformerFactory(client, 0)
		var q recorder
		owner := schema.GroupKind{Group: "demo.example.com", Kind: "DemoApp"}
		known := func(cache.ObjectName) (types.UID, bool) { return "app-1", true }
		if _, err := AddHandler("deployments", factory.ForResource(deployments).Informer(),
			OwnedHandler(&q, owner, known, Always[*metav1.PartialObjectMetadata](Drift))); err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		synctest.Wait()
		if got, want := q.take(), []string{"ns/app Drift"}; !slices.Equal(got, want) {
			t.Errorf("on add: %v, want %v", got, want)
		}
		if err := client.Tracker().Delete(deployments, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := q.take(), []string{"ns/app Drift"}; !slices.Equal(got, want) {
			t.Errorf("on delete: %v, want %v", got, want)
		}
		cancel()
		factory.Shutdown()
	})
}

func TestAddHandlerToStoppedInformer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	informer := factory.Core().V1().Pods().Informer()
	informer.RunWithContext(ctx)
	if _, err := AddHandler("pods", informer, SpecHandler[*corev1.Pod](&recorder{})); err == nil {
		t.Error("no error")
	}
}
