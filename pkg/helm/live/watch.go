// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/shardcache"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// ErrNotSynced means that a watch is not filled yet. A retry helps.
var ErrNotSynced = errors.New("cache is not synced")

// SyncTimeout is the time to fill the watch of a kind. After it, the kind counts as unobserved until
// the watch is filled.
const SyncTimeout = 30 * time.Second

// Object is the cached part of a watched object, which shows drift and health. It has about a
// hundredth of the object's size.
type Object struct {
	metav1.ObjectMeta

	// Manager is the value of Helm's label.
	Manager string
	// Release is the release that the object's annotations name.
	Release cache.ObjectName
	// Kept means that the object outlives its release.
	Kept  bool
	Trace ssa.Trace
	// Foreign identifies the fields that other clients own.
	Foreign string
	// edited is the time when other clients last set fields, in Unix seconds.
	edited int64
	Health health.Health
}

// Edition changes with every change by other clients, except for changes of the status. If the kind
// has a generation, two changes of the metadata within one second may count as one.
func (o *Object) Edition() string {
	if o.Generation == 0 {
		return o.ResourceVersion
	}
	return fmt.Sprintf("%d %d %s", o.Generation, o.edited, o.Foreign)
}

// Of reduces an object, complete or metadata only, to its cached part.
func Of(object metav1.Object) *Object {
	managed, annotations := ssa.ManagedFields(object), object.GetAnnotations()
	slim := &Object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         object.GetNamespace(),
			Name:              object.GetName(),
			UID:               object.GetUID(),
			ResourceVersion:   object.GetResourceVersion(),
			Generation:        object.GetGeneration(),
			DeletionTimestamp: object.GetDeletionTimestamp(),
			Finalizers:        finalizersOf(object),
		},
		Manager: object.GetLabels()[manifest.ManagedByLabel],
		Release: cache.ObjectName{Namespace: annotations[manifest.ReleaseNamespaceAnnotation], Name: annotations[manifest.ReleaseNameAnnotation]},
		Kept:    manifest.IsKept(object),
		Trace:   ssa.TraceOf(object, managed, manifest.FieldManager),
		Foreign: fields.Digest(managed),
		edited:  fields.LastSet(managed),
	}
	switch whole := object.(type) {
	case *metav1.PartialObjectMetadata:
		slim.Health = health.OfStatusless(whole)
	case *unstructured.Unstructured:
		slim.Health = health.Of(whole)
	default:
		slim.Health = health.OfTyped(whole)
	}
	return slim
}

// maxFinalizers bounds the cached finalizers of an object, which any client may add.
const maxFinalizers = 10

// finalizersOf returns the first finalizers of an object.
func finalizersOf(object metav1.Object) []string {
	finalizers := object.GetFinalizers()
	return slices.Clone(finalizers[:min(len(finalizers), maxFinalizers)])
}

// transform calls Of for an informer, and notes objects that have ended.
func (w *Watcher) transform(object any) (any, error) {
	if _, done := object.(*Object); done {
		return object, nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("transform %T: %w", object, err)
	}
	reduced := Of(accessor)
	w.Ends.Note(reduced, reduced.Health.Ended)
	return reduced, nil
}

// Event is a change of an object that this process did not make.
type Event struct {
	View    *overlay.View[*Object]
	Release cache.ObjectName
	// Object is the object after the change; before it if Gone.
	Object *Object
	// Gone means that the object was deleted.
	Gone bool
	// HealthOnly means that the object changed in nothing but its health.
	HealthOnly bool
}

// Watcher watches the kinds of the releases' objects, each from the first release that needs
// it to the last. It selects by Helm's label, so that other objects cost nothing.
type Watcher struct {
	// Foreign has the releases in which fields of other clients are drift.
	Foreign Foreign
	// Drifted has the objects that had drifted at the last observation.
	Drifted Drifted
	// Ends has the objects that ended, and may be gone.
	Ends health.Ends

	sources    *Sources
	shards     *shardcache.Selection
	namespaces []string
	// watchErrors returns the watch error handler of an informer.
	watchErrors func(watched string) cache.WatchErrorHandlerWithContext
	// notify is called for every change that this process did not make.
	notify func(Event)
	// observable is called when a kind that a release uses can or cannot be observed any more.
	observable func(release cache.ObjectName)

	// wake signals run that kinds are pending, or that a watch fails.
	wake chan struct{}

	mu      sync.Mutex
	kinds   map[schema.GroupVersionResource]*watchedKind
	pending []*watchedKind
	// awaited are the uninstalled releases whose objects are watched until they are gone.
	awaited sets.Set[cache.ObjectName]
}

// watchedKind is one watched kind: an informer for each namespace, or one for all under the
// empty name.
type watchedKind struct {
	// dropped is closed when no release needs the kind any more.
	dropped   chan struct{}
	created   time.Time
	users     sets.Set[cache.ObjectName]
	informers []cache.SharedIndexInformer
	views     overlay.Views[*Object]
	synced    []<-chan struct{}
	failure   *watchFailure
}

// NewWatcher returns a watcher of the selected shards of the namespaces; without any, of all. A
// cluster-scoped object belongs to all shards. notify and observable must not block.
func NewWatcher(
	sources *Sources, shards *shardcache.Selection, namespaces []string,
	watchErrors func(watched string) cache.WatchErrorHandlerWithContext,
	notify func(Event), observable func(release cache.ObjectName),
) *Watcher {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Watcher{
		sources: sources, shards: shards, namespaces: namespaces, watchErrors: watchErrors, notify: notify, observable: observable,
		wake: make(chan struct{}, 1), kinds: map[schema.GroupVersionResource]*watchedKind{},
		awaited: sets.New[cache.ObjectName](),
	}
}

// Run runs the watches until ctx ends, and returns when all have ended.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	var review <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-review:
		}
		review = nil
		if w.reviewAll() {
			review = time.After(reviewInterval)
		}
		for _, kind := range w.takePending() {
			watching, stop := context.WithCancel(ctx)
			running.Go(func() {
				defer stop()
				select {
				case <-kind.dropped:
				case <-ctx.Done():
				}
			})
			for _, informer := range kind.informers {
				running.Go(func() { informer.RunWithContext(watching) })
			}
		}
	}
}

func (w *Watcher) takePending() []*watchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := w.pending
	w.pending = nil
	return pending
}

// Need watches the kinds for the release, and waits until each watch is filled or its kind is
// unobserved, see [Watcher.Unobserved]. It drops kinds that the release no longer needs. The error
// wraps [ErrNotSynced] when ctx ends first.
func (w *Watcher) Need(ctx context.Context, release cache.ObjectName, mappings []*meta.RESTMapping) error {
	desired := sets.New[schema.GroupVersionResource]()
	var waitFor []*watchedKind
	w.mu.Lock()
	for _, mapping := range mappings {
		desired.Insert(mapping.Resource)
		kind, ok := w.kinds[mapping.Resource]
		if !ok {
			var err error
			if kind, err = w.newKind(mapping); err != nil {
				w.mu.Unlock()
				return fmt.Errorf("watch %s: %w", mapping.Resource.Resource, err)
			}
			w.kinds[mapping.Resource] = kind
			w.pending = append(w.pending, kind)
		}
		kind.users.Insert(release)
		waitFor = append(waitFor, kind)
	}
	w.drop(release, desired)
	pending := len(w.pending) > 0
	w.mu.Unlock()
	if pending {
		w.wakeUp()
	}
	for i, kind := range waitFor {
		if err := kind.wait(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", mappings[i].Resource.Resource, err)
		}
	}
	return nil
}

func (w *Watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Forget drops all kinds that the release needed.
func (w *Watcher) Forget(release cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(release, nil)
	w.awaited.Delete(release)
}

// Await enables reports when objects of the release disappear, although this process deleted them.
func (w *Watcher) Await(release cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited.Insert(release)
}

// Awaits reports whether Await was called for the release.
func (w *Watcher) Awaits(release cache.ObjectName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaited.Has(release)
}

func (w *Watcher) drop(release cache.ObjectName, desired sets.Set[schema.GroupVersionResource]) {
	for resource, kind := range w.kinds {
		if desired.Has(resource) || !kind.users.Has(release) {
			continue
		}
		kind.users.Delete(release)
		if kind.users.Len() == 0 {
			close(kind.dropped)
			delete(w.kinds, resource)
		}
	}
}

// View returns the view of the objects of a kind in a namespace; nil when they are not
// watched, or the watch is not filled yet.
func (w *Watcher) View(mapping *meta.RESTMapping, namespace string) *overlay.View[*Object] {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, ok := w.kinds[mapping.Resource]
	if !ok || !kind.hasSynced() {
		return nil
	}
	return kind.views.In(namespace)
}

// Wrote notes the API server's answer to a write of an object whose kind is watched.
func (w *Watcher) Wrote(mapping *meta.RESTMapping, namespace string, written metav1.Object) {
	w.View(mapping, namespace).Wrote(Of(written))
}

func (w *Watcher) newKind(mapping *meta.RESTMapping) (*watchedKind, error) {
	kind := &watchedKind{
		dropped: make(chan struct{}),
		created: time.Now(),
		users:   sets.New[cache.ObjectName](),
		views:   overlay.Views[*Object]{},
		failure: &watchFailure{refused: make(chan struct{})},
	}
	namespaces, shards := w.namespaces, w.shards
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespaces, shards = []string{metav1.NamespaceAll}, nil
	}
	for _, namespace := range namespaces {
		source, err := w.sources.of(mapping, namespace)
		if err != nil {
			return nil, err
		}
		informer := source.telling(func(code int) {
			if kind.answered(code) {
				w.wakeUp()
			}
		}).informer(shards, mapping.Resource)
		view := overlay.New[*Object](informer.GetIndexer())
		registration, err := cache.NewTypedSharedIndexInformer[*Object](informer).AddTypedEventHandler(w.handler(view))
		if err := errors.Join(
			err,
			informer.SetTransform(w.transform),
			informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
				kind.failed(err)
				w.wakeUp()
				w.watchErrors(mapping.Resource.GroupResource().String())(ctx, r, err)
			}),
		); err != nil {
			return nil, err
		}
		kind.informers = append(kind.informers, informer)
		kind.views[namespace] = view
		kind.synced = append(kind.synced, registration.HasSyncedChecker().Done())
	}
	return kind, nil
}

// handler reports changes by other clients. It reports only changes of drift and health, by
// comparison with the previous version. It also reports when objects of an awaited release
// disappear.
func (w *Watcher) handler(view *overlay.View[*Object]) overlay.Handler[*Object] {
	return overlay.Handler[*Object]{
		View: view,
		Added: func(added, written *Object) {
			if written != nil {
				doubt(view, written, added)
			}
			w.notify(Event{View: view, Release: added.Release, Object: added})
		},
		Updated: func(was, is *Object) {
			release, doubted := was.Release, doubt(view, was, is)
			if is.Release != release && is.Release.Name != "" {
				w.notify(Event{View: view, Release: is.Release, Object: is})
			}
			switch {
			case doubted || was.Trace.Fingerprint != is.Trace.Fingerprint || was.UID != is.UID || was.Foreign != is.Foreign && w.Foreign.Has(release, is),
				w.Drifted.has(release, is.UID) && was.Edition() != is.Edition():
				w.notify(Event{View: view, Release: release, Object: is})
			case was.Health != is.Health:
				w.notify(Event{View: view, Release: release, Object: is, HealthOnly: true})
			}
		},
		Deleted: func(gone *Object, own bool) {
			if !own || w.Awaits(gone.Release) {
				w.notify(Event{View: view, Release: gone.Release, Object: gone, Gone: true})
			}
		},
	}
}

// doubt records that the change to a later version may hide a change of the engine's fields, and
// reports whether that is possible.
func doubt(view *overlay.View[*Object], was, is *Object) bool {
	doubted := was.UID == is.UID && was.Trace.MayHide(is.Trace)
	if doubted {
		view.Doubt(is)
	}
	return doubted
}

func (k *watchedKind) hasSynced() bool {
	for _, synced := range k.synced {
		select {
		case <-synced:
		default:
			return false
		}
	}
	return true
}

// wait waits until the kind's caches are filled, or the kind is unobserved.
func (k *watchedKind) wait(ctx context.Context) error {
	ctx, cancel := context.WithDeadlineCause(ctx, k.created.Add(SyncTimeout), errSlow)
	defer cancel()
	for _, synced := range k.synced {
		if k.unobserved() != nil {
			return nil
		}
		select {
		case <-synced:
		case <-k.failure.refused:
			return nil
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSlow) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrNotSynced, ctx.Err())
		}
	}
	return nil
}

// errSlow ends the wait for a first list that takes longer than SyncTimeout.
var errSlow = errors.New("the first list takes too long")
