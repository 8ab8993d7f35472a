// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Latest holds the objects that this process wrote, until the informer's cache has
// the same or a newer version. A pass after a write therefore does not act on the
// version that the write replaced. The zero value is ready to use. The objects
// are shared: treat them as read-only, like objects of a cache.
type Latest[T Object] struct {
	mu      sync.Mutex
	written map[cache.ObjectName]T
	gone    map[cache.ObjectName]types.UID
}

// Newest returns the newer of two versions: cached, from the informer's cache, and
// the version last passed to Wrote. It returns nil if cached is nil, because the
// object is then deleted. Resource versions of a kind only grow, so an object that
// was created again replaces the version that was written before its deletion.
func (l *Latest[T]) Newest(key cache.ObjectName, cached T) T {
	var none T
	l.mu.Lock()
	defer l.mu.Unlock()
	if uid, ok := l.gone[key]; ok {
		if cached != none && cached.GetUID() == uid {
			return none
		}
		delete(l.gone, key)
	}
	written, ok := l.written[key]
	if !ok {
		return cached
	}
	if cached != none && newer(written, cached) {
		return written
	}
	delete(l.written, key)
	return cached
}

// Wrote records obj, as the API server returned it from a write.
func (l *Latest[T]) Wrote(obj T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := nameOf(obj)
	if known, ok := l.written[key]; ok && !newer(obj, known) {
		return
	}
	if l.written == nil {
		l.written = map[cache.ObjectName]T{}
	}
	l.written[key] = obj
}

// Seen drops the version that was written if the cache has come to it. Call it with each
// version that the cache gets, so that no copy stays until the next pass.
func (l *Latest[T]) Seen(cached T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := nameOf(cached)
	if written, ok := l.written[key]; ok && !newer(written, cached) {
		delete(l.written, key)
	}
}

// Gone records that obj is deleted: an own write removed the last finalizer, or the API server
// no longer has obj. Newest then returns nil for that UID.
func (l *Latest[T]) Gone(obj metav1.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := cache.MetaObjectToName(obj)
	delete(l.written, key)
	if l.gone == nil {
		l.gone = map[cache.ObjectName]types.UID{}
	}
	l.gone[key] = obj.GetUID()
}

// Forget drops the versions of key. Call it when the cache no longer has the object.
func (l *Latest[T]) Forget(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, key)
	delete(l.gone, key)
}

// newer reports whether a is a later version than b. It returns false for versions
// that cannot be compared; only fake clientsets produce them.
func newer[T Object](a, b T) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
