// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

// pausable edits a Kind whose steps and deletions are counted.
func pausable(steps, deletions *int) func(*world, *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
	return func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Finalizer = ours
		k.Steps = func(_ context.Context, p *pass) error {
			*steps++
			p.Conditions().MarkReady("AllReady", "")
			return nil
		}
		k.Finalize = func(context.Context, *pass) (event.Event, error) {
			*deletions++
			return event.Event{}, nil
		}
	}
}

func annotated(value string) func(*cluster) {
	return func(c *cluster) { c.Annotations = map[string]string{apimeta.AnnotationPaused: value} }
}

func TestPausedObjectIsNotChanged(t *testing.T) {
	var steps, deletions int
	w := newWorld(t, pausable(&steps, &deletions))
	w.change(annotated("true"))
	w.sync()

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests of a new object", []string{"patch status"}, w.requests)
	expect.Equal(t, "steps", 0, steps)
	expect.Equal(t, "conditions", map[string]string{
		"Suspended": "True SuspendedByAnnotation", "Ready": "False SuspendedByAnnotation", "Reconciling": "True SuspendedByAnnotation",
	}, w.conditions())
	expect.Equal(t, "message", "Nothing of the DemoAppCluster is changed while annotation demo.example.com/paused is true",
		w.stored().Status.Conditions[0].Message)

	w.sync()
	_, err = w.pass()
	expect.NoError(t, err)
	expect.Equal(t, "requests of another pass", []string(nil), w.requests)

	w.change(annotated("false"))
	w.sync()
	_, err = w.pass()
	expect.NoError(t, err)
	expect.Equal(t, "steps after the pause", 1, steps)
	expect.Equal(t, "conditions after the pause", map[string]string{"Ready": "True AllReady"}, w.conditions())

	w.sync()
	w.change(annotated("1"))
	w.sync()
	_, err = w.pass()
	expect.NoError(t, err)
	expect.Equal(t, "conditions of a paused object without a waiting change", map[string]string{
		"Suspended": "True SuspendedByAnnotation", "Ready": "True AllReady",
	}, w.conditions())
}

// TestPausedReason: the condition shows the reason in one bounded line, and a new reason starts a
// pass.
func TestPausedReason(t *testing.T) {
	tests := []struct{ name, reason, want string }{
		{"reason", "moving the database", ": moving the database"},
		{"lines and control characters", "a\n\nb\x1b[31mc\u202ed\t", ": a b [31mc d"},
		{"only white space", " \n", ""},
		{"long", strings.Repeat("é", 1<<16), ": " + strings.Repeat("é", 126) + "..."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var steps, deletions int
			w := newWorld(t, pausable(&steps, &deletions))
			w.change(func(c *cluster) {
				c.Annotations = map[string]string{apimeta.AnnotationPaused: "true", apimeta.AnnotationPausedReason: test.reason}
			})
			w.sync()

			_, err := w.pass()

			expect.NoError(t, err)
			expect.Equal(t, "message", "Nothing of the DemoAppCluster is changed while annotation demo.example.com/paused is true"+test.want,
				w.stored().Status.Conditions[0].Message)
		})
	}
}

func TestPausedObjectIsDeleted(t *testing.T) {
	var steps, deletions int
	w := newWorld(t, pausable(&steps, &deletions))
	_, err := w.pass()
	expect.NoError(t, err)
	w.change(annotated("true"))
	w.delete()

	_, err = w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "deletions", 1, deletions)
}

// TestSuspendingKindGetsThePause: a kind that reports drift while it is paused runs its steps.
func TestSuspendingKindGetsThePause(t *testing.T) {
	var got kind.Pause
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Suspends = true
		k.Steps = func(_ context.Context, p *pass) error {
			got = p.Pause
			return nil
		}
	})
	w.change(annotated("true"))
	w.sync()

	_, err := w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "pause", kind.Pause{Reason: apimeta.ReasonSuspendedByAnnotation, By: "annotation demo.example.com/paused"}, got)
}

// watchedNamespaces are Namespaces whose informer runs until end is called.
type watchedNamespaces struct {
	*controller.Namespaces

	client *fake.FakeMetadataClient
	// changed are the names that the watch reports until stop is called.
	changed   []string
	stop, end func()
}

// watchNamespaces runs the informer of Namespaces, with one object.
func watchNamespaces(t *testing.T, namespace *metav1.PartialObjectMetadata) *watchedNamespaces {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	w := &watchedNamespaces{client: fake.NewSimpleMetadataClient(scheme, namespace)}
	namespaces, informer, err := controller.NewNamespaces(w.client)
	expect.NoError(t, err)
	w.Namespaces = namespaces
	synced, stop, err := namespaces.Watch(func(name string) { w.changed = append(w.changed, name) })
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	w.stop, w.end = stop, func() {
		cancel()
		<-done
	}
	synctest.Wait()
	expect.Equal(t, "synced", true, synced[0].HasSynced())
	return w
}

// update changes the object.
func (w *watchedNamespaces) update(t *testing.T, namespace *metav1.PartialObjectMetadata) {
	t.Helper()
	_, err := w.client.Resource(namespaceResource).(fake.MetadataClient).UpdateFake(namespace, metav1.UpdateOptions{})
	expect.NoError(t, err)
	synctest.Wait()
}

var namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")

// TestPausedNamespace: the annotation of a Namespace pauses the objects in it, and its end starts a
// pass over each.
func TestPausedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		namespace := func(paused string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: map[string]string{
					apimeta.AnnotationPaused: paused, apimeta.AnnotationPausedReason: "night", "other": "x",
				}},
			}
		}
		namespaces := watchNamespaces(t, namespace("true"))
		expect.Equal(t, "paused", true, namespaces.IsPaused("ns"))
		expect.Equal(t, "reason", "night", namespaces.PausedReason("ns"))
		expect.Equal(t, "another namespace is paused", false, namespaces.IsPaused("other"))
		expect.Equal(t, "changes before", []string(nil), namespaces.changed)

		namespaces.update(t, namespace("false"))
		expect.Equal(t, "paused after the end", false, namespaces.IsPaused("ns"))
		expect.Equal(t, "changes", []string{"ns"}, namespaces.changed)

		later := namespace("false")
		later.Name = "later"
		_, err := namespaces.client.Resource(namespaceResource).(fake.MetadataClient).CreateFake(later, metav1.CreateOptions{})
		expect.NoError(t, err)
		synctest.Wait()
		expect.Equal(t, "changes with a new namespace", []string{"ns", "later"}, namespaces.changed)

		namespaces.stop()
		namespaces.update(t, namespace("true"))
		expect.Equal(t, "changes after the end of the watch", []string{"ns", "later"}, namespaces.changed)
		expect.Equal(t, "terminating", false, namespaces.IsTerminating("ns"))
		expect.Equal(t, "unknown Namespaces pause nothing", false, (*controller.Namespaces)(nil).IsPaused("ns"))
		namespaces.end()
	})
}

// TestRestrictedNamespace: a Namespace whose label begins or ends to enforce the restricted level starts a pass over
// each object in it.
func TestRestrictedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		namespace := func(level string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}},
			}
		}
		namespaces := watchNamespaces(t, namespace("restricted"))
		defer namespaces.stop()
		seen := func(of *controller.Namespaces, name string) [2]bool {
			enforced, known := of.EnforcesRestricted(name)
			return [2]bool{enforced, known}
		}
		expect.Equal(t, "enforced and known", [2]bool{true, true}, seen(namespaces.Namespaces, "ns"))
		expect.Equal(t, "of a Namespace that the cache lacks", [2]bool{false, false}, seen(namespaces.Namespaces, "other"))
		expect.Equal(t, "of all, if Namespaces are not watched", [2]bool{true, true}, seen(nil, "ns"))

		for _, level := range []string{"baseline", "privileged", "restricted"} {
			namespaces.update(t, namespace(level))
			expect.Equal(t, "after "+level, [2]bool{level == "restricted", true}, seen(namespaces.Namespaces, "ns"))
		}
		expect.Equal(t, "changes", []string{"ns", "ns"}, namespaces.changed)
		namespaces.end()
	})
}

// namespaceWorld runs a loop over two objects in the Namespace ns and one in another.
type namespaceWorld struct {
	t        *testing.T
	metadata *fake.FakeMetadataClient

	mu     sync.Mutex
	passes []string
	// err is the result of the steps.
	err error
}

// newNamespaceWorld starts the loop. Use it inside synctest.Test only.
func newNamespaceWorld(t *testing.T, err error) *namespaceWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	w := &namespaceWorld{t: t, metadata: fake.NewSimpleMetadataClient(scheme, namespaceNS(nil)), err: err}
	namespaces, watched, err := controller.NewNamespaces(w.metadata)
	expect.NoError(t, err)
	client := demofake.NewClientset(
		&cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}},
		&cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}},
		&cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-2", Name: "a"}},
	)
	informer := externalversions.NewSharedInformerFactory(client, 0).Demo().V1alpha1().DemoAppClusters().Informer()
	loop, err := kind.New(kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]{
		Name: "clusters", GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("DemoAppCluster"), FieldManager: "test", Suspends: true,
		Client: func(namespace string) controller.Patcher[*cluster] {
			return client.DemoV1alpha1().DemoAppClusters(namespace)
		},
		Status:     func(c *cluster) *v1alpha1.DemoAppClusterStatus { return &c.Status },
		Conditions: func(s *v1alpha1.DemoAppClusterStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      w.steps,
	}, kind.Deps{
		Informers: map[string]cache.SharedIndexInformer{"": informer}, Clock: clock.RealClock{}, ResyncPeriod: time.Hour, Namespaces: namespaces, Workers: 1,
	})
	expect.NoError(t, err)
	ctx := t.Context()
	var running sync.WaitGroup
	running.Go(func() { watched.RunWithContext(ctx) })
	running.Go(func() { informer.RunWithContext(ctx) })
	synctest.Wait()
	running.Go(func() { _ = loop.Run(ctx, context.WithoutCancel(ctx)) })
	t.Cleanup(running.Wait)
	return w
}

func (w *namespaceWorld) steps(_ context.Context, p *pass) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passes = append(w.passes, p.Key().String()+" "+p.Pause.Reason)
	return w.err
}

// take returns the passes since the last call.
func (w *namespaceWorld) take() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := slices.Sorted(slices.Values(w.passes))
	w.passes = nil
	return taken
}

// namespaces returns the client of the Namespaces.
func (w *namespaceWorld) namespaces() fake.MetadataClient {
	w.t.Helper()
	client, ok := w.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).(fake.MetadataClient)
	expect.Equal(w.t, "is a fake client", true, ok)
	return client
}

func namespaceNS(annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: annotations},
	}
}

// TestPausedNamespaceStartsPasses: the annotation of a Namespace starts a pass over each object in
// it, and over no other.
func TestPausedNamespaceStartsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNamespaceWorld(t, nil)
		expect.Equal(t, "first passes", []string{"ns-2/a ", "ns/a ", "ns/b "}, w.take())

		_, err := w.namespaces().UpdateFake(namespaceNS(map[string]string{apimeta.AnnotationPaused: "true"}), metav1.UpdateOptions{})

		expect.NoError(t, err)
		expect.Equal(t, "passes after the pause", []string{"ns/a SuspendedByNamespace", "ns/b SuspendedByNamespace"}, w.take())
	})
}

// TestNewNamespaceEndsTheWaitForTheOldOne: a refusal by a namespace that was being deleted does not
// count for the next namespace of its name.
func TestNewNamespaceEndsTheWaitForTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNamespaceWorld(t, terminating())
		expect.Equal(t, "number of passes until the refusals", 2, len(w.take()))

		expect.NoError(t, w.namespaces().Delete(t.Context(), "ns", metav1.DeleteOptions{}))
		expect.Equal(t, "passes in the old namespace", []string(nil), w.take())
		_, err := w.namespaces().CreateFake(namespaceNS(nil), metav1.CreateOptions{})

		expect.NoError(t, err)
		expect.Equal(t, "number of passes in the new namespace", 1, len(w.take()))
	})
}
