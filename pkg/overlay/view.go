// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// View is an informer's store combined with writes of this process that the store does not show
// yet. It is safe for concurrent use. Its objects are shared and must not be changed. A nil View
// has no objects and records nothing.
type View[T metav1.Object] struct {
	indexer cache.Indexer

	mu      sync.Mutex
	written map[string]ownWrite[T]
	// echoes are writes whose watch event may not have been handled yet. They are kept longer than
	// the written objects, because handlers run after the store has changed.
	echoes map[string]echo
	// doubts are objects that another client may have changed without a visible difference in the
	// metadata.
	doubts map[string]version
}

// version identifies a version of an object.
type version struct {
	uid             types.UID
	resourceVersion string
}

func versionOf(object metav1.Object) version {
	return version{object.GetUID(), object.GetResourceVersion()}
}

// echo identifies the version of an object that this process last wrote.
type echo struct {
	version

	// replaced is the UID of the object with the same name that this process deleted before.
	replaced types.UID
}

// ownWrite is a write of this process that the store may not show yet: the written version, or the
// last version before a delete.
type ownWrite[T metav1.Object] struct {
	version

	// object is empty after a delete.
	object  T
	deleted bool
}

// Views are the views of the informers of one kind, by namespace. If all namespaces are watched,
// there is one view under metav1.NamespaceAll.
type Views[T metav1.Object] map[string]*View[T]

// NewViews returns the views of informers.
func NewViews[T metav1.Object](informers map[string]cache.SharedIndexInformer) Views[T] {
	views := Views[T]{}
	for namespace, informer := range informers {
		views[namespace] = New[T](informer.GetIndexer())
	}
	return views
}

// In returns the view of the objects in a namespace; nil if the namespace is not watched.
func (v Views[T]) In(namespace string) *View[T] {
	if all, ok := v[metav1.NamespaceAll]; ok {
		return all
	}
	return v[namespace]
}

// New returns a view of an informer's store.
func New[T metav1.Object](indexer cache.Indexer) *View[T] {
	return &View[T]{indexer: indexer, written: map[string]ownWrite[T]{}, echoes: map[string]echo{}, doubts: map[string]version{}}
}

func objectKey(namespace, name string) string {
	return cache.ObjectName{Namespace: namespace, Name: name}.String()
}

// Wrote records the API server's answer to a create, update or apply of this process. It ignores an
// answer that is older than the recorded one. If the store already shows the answer, only an echo
// is recorded, because no later event would drop the object.
func (v *View[T]) Wrote(object T) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	key := objectKey(object.GetNamespace(), object.GetName())
	own, recorded := v.written[key]
	if recorded && !own.deleted && !AtLeast(object.GetResourceVersion(), own.resourceVersion) {
		return
	}
	replaced := v.echoes[key].replaced
	if recorded && own.deleted {
		replaced = own.uid
	}
	if doubt, ok := v.doubts[key]; ok && AtLeast(object.GetResourceVersion(), doubt.resourceVersion) {
		delete(v.doubts, key)
	}
	v.record(key, ownWrite[T]{version: versionOf(object), object: object})
	v.echoes[key] = echo{versionOf(object), replaced}
}

// record keeps a write until the store has caught up. The caller holds the lock.
func (v *View[T]) record(key string, own ownWrite[T]) {
	reached := v.indexer.LastStoreSyncResourceVersion()
	stored, exists, _ := v.indexer.GetByKey(key)
	if caughtUp(own, stored, exists, reached) {
		delete(v.written, key)
		return
	}
	v.written[key] = own
}

// Doubt records that another client may have changed fields of the operator in a way that the
// metadata does not show. The next write of the object by this process removes the record. Versions
// that this process wrote are not recorded: the answer to a write may arrive while its event is
// handled.
func (v *View[T]) Doubt(object T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := objectKey(object.GetNamespace(), object.GetName())
	if !v.isOwn(key, object) {
		v.doubts[key] = versionOf(object)
	}
}

// IsDoubted reports whether [View.Doubt] was called since the last write of the object.
func (v *View[T]) IsDoubted(object T) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	doubt, ok := v.doubts[objectKey(object.GetNamespace(), object.GetName())]
	return ok && doubt.uid == object.GetUID()
}

// Deleted records that this process deleted the object. If the store already shows the deletion,
// there is no record, because no later event would drop it.
func (v *View[T]) Deleted(object metav1.Object) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.record(objectKey(object.GetNamespace(), object.GetName()), ownWrite[T]{version: versionOf(object), deleted: true})
}

// IsOwn reports whether the object is the version that this process last wrote, or an older
// one. Its event is then an echo.
func (v *View[T]) IsOwn(object metav1.Object) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isOwn(objectKey(object.GetNamespace(), object.GetName()), object)
}

// isOwn is IsOwn for callers that hold the lock.
func (v *View[T]) isOwn(key string, object metav1.Object) bool {
	own, ok := v.echoes[key]
	return ok && own.uid == object.GetUID() && AtLeast(own.resourceVersion, object.GetResourceVersion())
}

// Own returns the version of the object that this process wrote, if the store does not show it yet.
func (v *View[T]) Own(object T) (T, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	own, ok := v.written[objectKey(object.GetNamespace(), object.GetName())]
	if !ok || own.deleted {
		var none T
		return none, false
	}
	return own.object, true
}

// IsOwnDelete reports whether this process deleted the object.
func (v *View[T]) IsOwnDelete(object T) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := objectKey(object.GetNamespace(), object.GetName())
	own, ok := v.written[key]
	return ok && own.deleted && own.uid == object.GetUID() || v.echoes[key].replaced == object.GetUID()
}

// Leaving returns the object if this process deleted it and the store still shows it, for
// instance because finalizers hold it.
func (v *View[T]) Leaving(namespace, name string) (T, bool) {
	key := objectKey(namespace, name)
	var none T
	if v == nil {
		return none, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	stored, exists, _ := v.indexer.GetByKey(key)
	own, ok := v.written[key]
	if !ok || !own.deleted || !exists || stored.(T).GetUID() != own.uid {
		return none, false
	}
	return stored.(T), true
}

// Settle drops the write of the object if the store has caught up. Handlers call it at the end of
// each event with the version of the event.
func (v *View[T]) Settle(object T) {
	_, exists := v.Get(object.GetNamespace(), object.GetName())
	key := objectKey(object.GetNamespace(), object.GetName())
	v.mu.Lock()
	defer v.mu.Unlock()
	if !exists {
		delete(v.doubts, key)
	}
	if own, ok := v.echoes[key]; ok && (!exists || AtLeast(object.GetResourceVersion(), own.resourceVersion)) {
		delete(v.echoes, key)
	}
}

// Get returns the newest known version of the object.
func (v *View[T]) Get(namespace, name string) (T, bool) {
	key := objectKey(namespace, name)
	var none T
	if v == nil {
		return none, false
	}
	// The lock prevents that the write is dropped while the store is read. The store's
	// resourceVersion is read before the object, because the object could arrive in between.
	v.mu.Lock()
	defer v.mu.Unlock()
	reached := v.indexer.LastStoreSyncResourceVersion()
	stored, exists, _ := v.indexer.GetByKey(key)
	if own, ok := v.written[key]; ok {
		if !caughtUp(own, stored, exists, reached) {
			if own.deleted {
				return none, false
			}
			return own.object, true
		}
		delete(v.written, key)
	}
	if !exists {
		return none, false
	}
	return stored.(T), true
}

// List returns the newest known versions of the objects under an index value. It includes written
// objects that the store does not show yet, if selects returns true for them.
func (v *View[T]) List(index, value string, selects func(T) bool) []T {
	if v == nil {
		return nil
	}
	v.mu.Lock() // See Get.
	stored, err := v.indexer.ByIndex(index, value)
	if err != nil {
		v.mu.Unlock()
		return nil // The informer was made with the index.
	}
	keys := make(map[string][2]string, len(stored))
	for _, object := range stored {
		object := object.(T)
		keys[objectKey(object.GetNamespace(), object.GetName())] = [2]string{object.GetNamespace(), object.GetName()}
	}
	for key, own := range v.written {
		if !own.deleted && selects(own.object) {
			keys[key] = [2]string{own.object.GetNamespace(), own.object.GetName()}
		}
	}
	v.mu.Unlock()
	objects := make([]T, 0, len(keys))
	for _, key := range keys {
		if object, ok := v.Get(key[0], key[1]); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// caughtUp reports whether a store at the resourceVersion reached shows the write. If the version
// of the store is not known, its object decides. A resourceVersion that cannot be parsed counts as
// caught up.
func caughtUp[T metav1.Object](own ownWrite[T], stored any, exists bool, reached string) bool {
	switch {
	case !exists:
	case own.deleted && stored.(T).GetUID() == own.uid:
		return false
	case own.deleted:
	case AtLeast(stored.(T).GetResourceVersion(), own.resourceVersion):
		return true
	case reached == "":
		return false
	}
	return AtLeast(reached, own.resourceVersion)
}

// AtLeast reports whether the resourceVersion got is not older than want. It returns true for
// versions that cannot be compared.
func AtLeast(got, want string) bool {
	order, err := resourceversion.CompareResourceVersion(got, want)
	return err != nil || order >= 0
}
