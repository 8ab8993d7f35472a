// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// watchSyncTimeout bounds the time to fill the watch of a kind.
const watchSyncTimeout = 30 * time.Second

// observed is the cached part of a watched object, which shows drift and health. It has about a
// hundredth of the object's size.
type observed struct {
	metav1.ObjectMeta

	// manager is the value of Helm's label.
	manager string
	// release is the release that the object's annotations name.
	release cache.ObjectName
	// kept means that the object outlives its release.
	kept  bool
	trace ssa.Trace
	// foreign identifies the fields that other clients own.
	foreign string
	// edited is the time when other clients last set fields, in Unix seconds.
	edited int64
	health Health
}

// edition changes with every change by other clients, except for changes of the status. If the kind
// has a generation, two changes of the metadata within one second may count as one.
func (o *observed) edition() string {
	if o.Generation == 0 {
		return o.ResourceVersion
	}
	return fmt.Sprintf("%d %d %s", o.Generation, o.edited, o.foreign)
}

// observe reduces an object, complete or metadata only, to its cached part.
func observe(object metav1.Object) *observed {
	managed, annotations := ssa.ManagedFields(object), object.GetAnnotations()
	slim := &observed{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         object.GetNamespace(),
			Name:              object.GetName(),
			UID:               object.GetUID(),
			ResourceVersion:   object.GetResourceVersion(),
			Generation:        object.GetGeneration(),
			DeletionTimestamp: object.GetDeletionTimestamp(),
		},
		manager: object.GetLabels()[manifest.ManagedByLabel],
		release: cache.ObjectName{Namespace: annotations[manifest.ReleaseNamespaceAnnotation], Name: annotations[manifest.ReleaseNameAnnotation]},
		kept:    manifest.IsKept(object),
		trace:   ssa.TraceOf(object, managed, FieldManager),
		foreign: foreignDigest(managed),
		edited:  foreignTime(managed),
	}
	switch whole := object.(type) {
	case *metav1.PartialObjectMetadata:
		slim.health = health.OfStatusless(whole)
	case *unstructured.Unstructured:
		slim.health = health.Of(whole)
	default:
		slim.health = health.OfTyped(whole)
	}
	return slim
}

// transform calls observe for an informer.
func transform(object any) (any, error) {
	if _, done := object.(*observed); done {
		return object, nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("transform %T: %w", object, err)
	}
	return observe(accessor), nil
}

// watcher watches the kinds of the releases' objects, each from the first release that needs
// it to the last. It selects by Helm's label, so that other objects cost nothing.
type watcher struct {
	sources    *sources
	namespaces []string
	foreign    *foreignWatch
	drifted    *driftWatch
	// watchErrors returns the watch error handler of an informer.
	watchErrors func(watched string) cache.WatchErrorHandlerWithContext
	// notify is called for every change that this process did not make.
	notify func(overlay.Notice[Change])

	// wake signals run that kinds are pending.
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
	users     sets.Set[cache.ObjectName]
	informers []cache.SharedIndexInformer
	views     overlay.Views[*observed]
	synced    []<-chan struct{}
	failure   *watchFailure
}

func newWatcher(
	sources *sources, namespaces []string, foreign *foreignWatch, drifted *driftWatch,
	watchErrors func(watched string) cache.WatchErrorHandlerWithContext, notify func(overlay.Notice[Change]),
) *watcher {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &watcher{
		sources: sources, namespaces: namespaces, foreign: foreign, drifted: drifted, watchErrors: watchErrors, notify: notify,
		wake: make(chan struct{}, 1), kinds: map[schema.GroupVersionResource]*watchedKind{},
		awaited: sets.New[cache.ObjectName](),
	}
}

// run runs the watches until ctx ends, and returns when all have ended.
func (w *watcher) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
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

func (w *watcher) takePending() []*watchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := w.pending
	w.pending = nil
	return pending
}

// need watches the kinds for the release, and waits until the watches are filled. It drops
// kinds that the release no longer needs.
func (w *watcher) need(ctx context.Context, release cache.ObjectName, mappings []*meta.RESTMapping) error {
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
	if len(w.pending) > 0 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	w.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, watchSyncTimeout)
	defer cancel()
	for i, kind := range waitFor {
		if err := kind.wait(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", mappings[i].Resource.Resource, err)
		}
	}
	return nil
}

// forget drops all kinds that the release needed.
func (w *watcher) forget(release cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(release, nil)
	w.awaited.Delete(release)
}

// await enables reports when objects of the release disappear, although this process deleted them.
func (w *watcher) await(release cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited.Insert(release)
}

func (w *watcher) awaits(release cache.ObjectName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaited.Has(release)
}

func (w *watcher) drop(release cache.ObjectName, desired sets.Set[schema.GroupVersionResource]) {
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

// view returns the view of the objects of a kind in a namespace; nil when they are not
// watched, or the watch is not filled yet.
func (w *watcher) view(mapping *meta.RESTMapping, namespace string) *overlay.View[*observed] {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, ok := w.kinds[mapping.Resource]
	if !ok || !kind.hasSynced() {
		return nil
	}
	return kind.views.In(namespace)
}

func (w *watcher) newKind(mapping *meta.RESTMapping) (*watchedKind, error) {
	kind := &watchedKind{
		dropped: make(chan struct{}),
		users:   sets.New[cache.ObjectName](),
		views:   overlay.Views[*observed]{},
		failure: &watchFailure{permanent: make(chan struct{})},
	}
	namespaces := w.namespaces
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		source, err := w.sources.of(mapping, namespace)
		if err != nil {
			return nil, err
		}
		informer := source.informer(mapping.Resource)
		view := overlay.New[*observed](informer.GetIndexer())
		registration, err := cache.NewTypedSharedIndexInformer[*observed](informer).AddTypedEventHandler(w.handler(view))
		if err := errors.Join(
			err,
			informer.SetTransform(transform),
			informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
				kind.failure.set(err)
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
func (w *watcher) handler(view *overlay.View[*observed]) overlay.Handler[*observed] {
	return overlay.Handler[*observed]{
		View: view,
		Added: func(added, written *observed) {
			if written != nil {
				doubt(view, written, added)
			}
			w.notify(overlay.NoticeOf(view, added.release, ObjectChanged, added, false))
		},
		Updated: func(was, is *observed) {
			release, doubted := was.release, doubt(view, was, is)
			if is.release != release && is.release.Name != "" {
				w.notify(overlay.NoticeOf(view, is.release, ObjectChanged, is, false))
			}
			switch {
			case doubted || was.trace.Fingerprint != is.trace.Fingerprint || was.UID != is.UID || was.foreign != is.foreign && w.foreign.has(release, is),
				w.drifted.has(release, is.UID) && was.edition() != is.edition():
				w.notify(overlay.NoticeOf(view, release, ObjectChanged, is, false))
			case was.health != is.health:
				w.notify(overlay.NoticeOf(view, release, HealthChanged, is, false))
			}
		},
		Deleted: func(gone *observed, own bool) {
			if !own || w.awaits(gone.release) {
				w.notify(overlay.NoticeOf(view, gone.release, ObjectChanged, gone, true))
			}
		},
	}
}

// doubt records that the change to a later version may hide a change of the engine's fields, and
// reports whether that is possible.
func doubt(view *overlay.View[*observed], was, is *observed) bool {
	doubted := was.UID == is.UID && was.trace.MayHide(is.trace)
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

// wait waits until the kind's caches are filled. It returns the error of the watch if a retry
// does not help.
func (k *watchedKind) wait(ctx context.Context) error {
	for _, synced := range k.synced {
		select {
		case <-synced:
			continue
		default:
		}
		select {
		case <-synced:
		case <-k.failure.permanent:
			return k.failure.get()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotSynced, errors.Join(ctx.Err(), k.failure.get()))
		}
	}
	return nil
}

// watchFailure holds the newest error of a watch.
type watchFailure struct {
	// permanent is closed when the API server has answered that the kind does not exist or
	// may not be watched.
	permanent chan struct{}

	mu  sync.Mutex
	err error
}

func (f *watchFailure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return
	}
	select {
	case <-f.permanent:
	default:
		close(f.permanent)
	}
}

func (f *watchFailure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
