// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Latest holds the newest versions of the objects that this process wrote,
// until the informer's cache has caught up, so that a pass that follows its
// own write does not act on what it has just replaced. The zero value is ready
// to use. Objects are shared: treat them as read-only, as those of a cache.
type Latest[T Object] struct {
	mu      sync.Mutex
	written map[cache.ObjectName]T
	gone    map[cache.ObjectName]types.UID
}

// Newest returns the newer of cached, the version in the informer's cache, and
// the version last given to Wrote. Resource versions of a kind only grow, so
// an object that was deleted and created again supersedes the one written
// before it. The zero T means that the cache has no such object; then there is
// none.
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

// Wrote remembers obj, as the API server returned it from a write.
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

// Gone remembers that a write of this process, of the last finalizer for
// instance, made obj disappear. Newest returns the zero T for it from then on.
func (l *Latest[T]) Gone(obj T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := nameOf(obj)
	delete(l.written, key)
	if l.gone == nil {
		l.gone = map[cache.ObjectName]types.UID{}
	}
	l.gone[key] = obj.GetUID()
}

// Forget drops what is known about key; call it when the object is gone.
func (l *Latest[T]) Forget(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, key)
	delete(l.gone, key)
}

// newer reports whether a is a later version than b. Versions that cannot be
// compared, which only a fake clientset makes, are not.
func newer[T Object](a, b T) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
