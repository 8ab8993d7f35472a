// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of a watched kind: a pointer, or an interface that holds one.
type Object interface {
	comparable
	metav1.Object
}

// Handler handles the watch events of a view's informer. It leaves out echoes of the writes of this
// process, and it drops writes that the store has caught up with. Functions may be nil.
type Handler[T Object] struct {
	View *View[T]
	// Added is called when an object is new in the store. written is the version that this process
	// wrote and that the watch has skipped, or the zero value.
	Added func(object, written T)
	// Updated is called when the store has another version of an object. before is the newest
	// version that this process knew, cached or written, because a new watch skips versions.
	Updated func(before, after T)
	// Deleted is called when an object is gone from the store. own reports whether this process
	// deleted it.
	Deleted func(object T, own bool)
}

// OnAdd implements cache.TypedResourceEventHandler.
func (h Handler[T]) OnAdd(object T, _ bool) {
	defer h.View.Settle(object)
	own := h.View.IsOwn(object)
	written, _ := h.View.Own(object)
	if !own && h.Added != nil {
		h.Added(object, written)
	}
}

// OnUpdate implements cache.TypedResourceEventHandler.
func (h Handler[T]) OnUpdate(before, after T) {
	defer h.View.Settle(after)
	own := h.View.IsOwn(after)
	if written, ok := h.View.Own(after); ok && !AtLeast(before.GetResourceVersion(), written.GetResourceVersion()) {
		before = written
	}
	// A new watch reports all objects again.
	if !own && before.GetResourceVersion() != after.GetResourceVersion() && h.Updated != nil {
		h.Updated(before, after)
	}
}

// OnDelete implements cache.TypedResourceEventHandler. It ignores the deletion of an object that
// the informer never saw. A periodic pass covers it.
func (h Handler[T]) OnDelete(gone cache.DeletedObject[T]) {
	var none T
	if gone.OptionalObj == none {
		return
	}
	defer h.View.Settle(gone.OptionalObj)
	own := h.View.IsOwnDelete(gone.OptionalObj)
	if h.Deleted != nil {
		h.Deleted(gone.OptionalObj, own)
	}
}
