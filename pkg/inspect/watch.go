// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// discoverEvery is the time between two looks for new kinds.
	discoverEvery = 30 * time.Second
	// maxWatched is the number of objects that a watch keeps, of all kinds together.
	maxWatched = 20000
	// maxRemoved is the number of removed objects that a watch remembers. A reader that is further
	// behind gets all objects again.
	maxRemoved = 4096
	// maxWatchedText is the length of a message in a watched summary.
	maxWatchedText = 512
)

// Watch follows all objects of all kinds of the operator. It keeps only their summaries. Readers
// ask for the changes since a version, so a slow reader holds no memory. It is safe for concurrent
// use.
type Watch struct {
	cluster   *Cluster
	namespace string

	mu      sync.Mutex
	version uint64
	// changed is closed at the next change.
	changed chan struct{}
	kinds   map[schema.GroupKind]*kindWatch
	// objects is the number of objects of all kinds.
	objects int
	removed []removal
	// forgotten is the version of the newest removal that is no longer remembered.
	forgotten uint64
	err       error
}

type removal struct {
	Reference

	version uint64
}

// WatchedKind is a kind, and whether its objects are known.
type WatchedKind struct {
	Kind

	// Synced says that all objects have been listed once.
	Synced bool
	// LeftOut says that the watch keeps no more objects.
	LeftOut bool
	// Err is why the kind cannot be listed or watched at the moment, such as a missing permission.
	Err error
}

// Changes are the changes since a version.
type Changes struct {
	Version uint64
	// Reset says that Objects are all objects; all earlier objects are gone.
	Reset   bool
	Objects []Summary
	Removed []Reference
	// Kinds are all kinds, sorted by group and name.
	Kinds []WatchedKind
	// Err is why the kinds of the API server cannot be read at the moment.
	Err error
}

// NewWatch returns a watch of a namespace; of all namespaces if it is empty.
func NewWatch(cluster *Cluster, namespace string) *Watch {
	return &Watch{cluster: cluster, namespace: namespace, version: 1, changed: make(chan struct{}), kinds: map[schema.GroupKind]*kindWatch{}}
}

// Run watches until the context ends.
func (w *Watch) Run(ctx context.Context) {
	// Errors are shown to the reader, so the reflectors need not log them.
	ctx = klog.NewContext(ctx, klog.Logger{})
	var running sync.WaitGroup
	defer running.Wait()
	ticks := time.NewTicker(discoverEvery)
	defer ticks.Stop()
	for {
		w.discover(ctx, &running)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// discover begins the watches of new kinds and ends the watches of removed kinds.
func (w *Watch) discover(ctx context.Context, running *sync.WaitGroup) {
	if cached, ok := w.cluster.Discovery.(discovery.CachedDiscoveryInterface); ok {
		cached.Invalidate()
	}
	kinds, err := New(w.cluster.Clients, w.cluster.Operator).Kinds(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(err) != fmt.Sprint(w.err) {
		w.err = err
		w.bump()
	}
	if err != nil {
		return
	}
	served := map[schema.GroupKind]bool{}
	for _, kind := range kinds {
		served[kind.GroupKind()] = true
		if known := w.kinds[kind.GroupKind()]; known != nil && known.kind.Version == kind.Version {
			continue
		}
		w.drop(kind.GroupKind())
		kindCtx, stop := context.WithCancel(ctx)
		k := &kindWatch{watch: w, kind: kind, stop: stop, objects: map[types.NamespacedName]*watched{}}
		w.kinds[kind.GroupKind()] = k
		w.bump()
		running.Go(func() { k.run(kindCtx) })
	}
	for kind := range w.kinds {
		if !served[kind] {
			w.drop(kind)
		}
	}
}

// drop ends the watch of a kind and removes its objects.
func (w *Watch) drop(kind schema.GroupKind) {
	k := w.kinds[kind]
	if k == nil {
		return
	}
	k.stop()
	delete(w.kinds, kind)
	for name := range k.objects {
		k.remove(name)
	}
	w.bump() // The kind itself is gone, too.
}

// bump begins a new version and wakes the readers.
func (w *Watch) bump() uint64 {
	w.version++
	close(w.changed)
	w.changed = make(chan struct{})
	return w.version
}

// Changed returns a channel that is closed at the next change.
func (w *Watch) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Changes returns the changes since a version; 0 stands for the beginning.
func (w *Watch) Changes(since uint64) Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := Changes{Version: w.version, Reset: since == 0 || since < w.forgotten || since > w.version, Err: w.err}
	for _, k := range w.kinds {
		c.Kinds = append(c.Kinds, WatchedKind{Kind: k.kind, Synced: k.synced, LeftOut: k.leftOut, Err: k.err})
		for _, object := range k.objects {
			if c.Reset || object.version > since {
				c.Objects = append(c.Objects, object.summary)
			}
		}
	}
	for _, removal := range w.removed {
		if !c.Reset && removal.version > since {
			c.Removed = append(c.Removed, removal.Reference)
		}
	}
	slices.SortFunc(c.Kinds, func(a, b WatchedKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	slices.SortFunc(c.Objects, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// kindWatch follows the objects of a kind. The mutex of the watch guards it.
type kindWatch struct {
	watch   *Watch
	kind    Kind
	stop    context.CancelFunc
	objects map[types.NamespacedName]*watched
	synced  bool
	leftOut bool
	err     error
}

type watched struct {
	summary Summary
	version uint64
}

func (k *kindWatch) run(ctx context.Context) {
	namespace := k.watch.namespace
	if !k.kind.Namespaced {
		namespace = ""
	}
	client := k.watch.cluster.Dynamic
	resource := k.watch.cluster.resource(k.kind.GroupVersion().WithResource(k.kind.Resource), namespace)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, options)
			k.failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := resource.Watch(ctx, options)
			k.failed(err)
			return events, err
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lists, client), &unstructured.Unstructured{}, k,
		cache.ReflectorOptions{Logger: &logger, TypeDescription: k.kind.Kind},
	).RunWithContext(ctx)
}

// failed notes why the kind cannot be read; nil if it can.
func (k *kindWatch) failed(err error) {
	k.watch.mu.Lock()
	defer k.watch.mu.Unlock()
	if fmt.Sprint(err) != fmt.Sprint(k.err) {
		k.err = err
		k.watch.bump()
	}
}

// Add implements cache.ReflectorStore.
func (k *kindWatch) Add(object any) error { return k.Update(object) }

// Update implements cache.ReflectorStore.
func (k *kindWatch) Update(object any) error {
	k.watch.mu.Lock()
	defer k.watch.mu.Unlock()
	k.put(object)
	return nil
}

// Delete implements cache.ReflectorStore.
func (k *kindWatch) Delete(object any) error {
	k.watch.mu.Lock()
	defer k.watch.mu.Unlock()
	if deleted, ok := object.(*unstructured.Unstructured); ok {
		k.remove(types.NamespacedName{Namespace: deleted.GetNamespace(), Name: deleted.GetName()})
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (k *kindWatch) Replace(objects []any, _ string) error {
	k.watch.mu.Lock()
	defer k.watch.mu.Unlock()
	k.synced, k.leftOut = true, false
	k.watch.bump()
	listed := map[types.NamespacedName]bool{}
	for _, object := range objects {
		listed[k.put(object)] = true
	}
	for name := range k.objects {
		if !listed[name] {
			k.remove(name)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (k *kindWatch) Resync() error { return nil }

// put keeps the summary of an object. Whatever differs only outside of the summary is no change.
func (k *kindWatch) put(object any) (name types.NamespacedName) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok || k.watch.kinds[k.kind.GroupKind()] != k {
		return name
	}
	summary := Summarize(whole)
	summary.Message = message.Truncate(summary.Message, maxWatchedText)
	name = types.NamespacedName{Namespace: summary.Namespace, Name: summary.Name}
	known := k.objects[name]
	switch {
	case known == nil && k.watch.objects >= maxWatched:
		if !k.leftOut {
			k.leftOut = true
			k.watch.bump()
		}
	case known == nil:
		k.watch.objects++
		k.objects[name] = &watched{summary, k.watch.bump()}
	case known.summary != summary:
		*known = watched{summary, k.watch.bump()}
	}
	return name
}

// remove forgets an object.
func (k *kindWatch) remove(name types.NamespacedName) {
	w := k.watch
	if _, known := k.objects[name]; !known {
		return
	}
	delete(k.objects, name)
	w.objects--
	w.removed = append(w.removed, removal{Reference{k.kind.GroupVersionKind, name.Namespace, name.Name}, w.bump()})
	if len(w.removed) > maxRemoved {
		w.forgotten = w.removed[0].version
		w.removed = slices.Delete(w.removed, 0, 1)
	}
}
