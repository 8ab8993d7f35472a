// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Object is an API object as informers deliver it: a pointer to a typed object,
// a *unstructured.Unstructured or a *metav1.PartialObjectMetadata.
type Object interface {
	comparable
	metav1.Object
}

// Enqueuer is the part of a [Controller] that handlers use.
type Enqueuer interface {
	Enqueue(key cache.ObjectName, why Reason)
}

// AddHandler registers handler with an informer of objects of type T. The
// informer may be generated, dynamic or for metadata only. The handler gets no
// resyncs. Pass the result to [Controller.Run].
func AddHandler[T Object](
	name string, informer cache.SharedIndexInformer, handler cache.TypedResourceEventHandler[T],
) (NamedSync, error) {
	registration, err := cache.NewTypedSharedIndexInformer[T](informer).
		AddTypedEventHandler(handler, cache.HandlerOptions{ResyncPeriod: new(time.Duration)})
	if err != nil {
		return NamedSync{}, fmt.Errorf("add a handler to informer %q: %w", name, err)
	}
	return NamedSync{Name: name, HasSynced: registration.HasSynced}, nil
}

// SpecHandler enqueues the objects that a controller reconciles.
//
// The reason is SpecChange when an object appears, and when its generation, its
// deletionTimestamp or one of the given annotations changes. The reason is
// Deleted when the object is gone. An object that replaces another of the same
// name is enqueued with both reasons.
//
// Changes of the status, of labels and of other annotations are ignored. Kinds
// without a generation, such as ConfigMap, need a [MapHandler].
func SpecHandler[T Object](q Enqueuer, annotations ...string) cache.TypedResourceEventHandler[T] {
	self := func(obj T) []cache.ObjectName { return []cache.ObjectName{nameOf(obj)} }
	why := func(before, after T) Reason {
		var none T
		switch {
		case after == none:
			return Deleted
		case before == none, specChanged(before, after, annotations):
			return SpecChange
		default:
			return 0
		}
	}
	return specHandler[T]{watchHandler[T]{queue: q, keys: self, why: why}}
}

func specChanged[T Object](before, after T, annotations []string) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) ||
		slices.ContainsFunc(annotations, func(name string) bool {
			old, had := before.GetAnnotations()[name]
			value, has := after.GetAnnotations()[name]
			return had != has || old != value
		})
}

// specHandler also enqueues a deleted object whose tombstone has only its name.
type specHandler[T Object] struct{ watchHandler[T] }

func (h specHandler[T]) OnDelete(gone cache.DeletedObject[T]) {
	h.queue.Enqueue(gone.GetObjectName(), Deleted)
}

// Why returns the reason for which an event on a watched object enqueues keys; 0
// enqueues none. Before is nil when the object appears, and after is nil when the
// object is gone. Otherwise, both have the same UID.
type Why[T Object] func(before, after T) Reason

// Always gives every event the same reason.
func Always[T Object](why Reason) Why[T] {
	return func(_, _ T) Reason { return why }
}

// OwnedHandler enqueues the controller owner of an object, if the owner is of kind
// owner. The UID in the owner reference must equal the UID that uid returns.
// Otherwise, the owner was deleted and created again, and does not own the object.
// When the controller owner changes, the old and the new owner are enqueued.
func OwnedHandler[T Object](
	q Enqueuer, owner schema.GroupKind, uid func(cache.ObjectName) (types.UID, bool), why Why[T],
) cache.TypedResourceEventHandler[T] {
	return MapHandler(q, func(obj T) []cache.ObjectName {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil || ref.Kind != owner.Kind || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group != owner.Group {
			return nil
		}
		key := cache.NewObjectName(obj.GetNamespace(), ref.Name)
		if known, ok := uid(key); !ok || known != ref.UID {
			return nil
		}
		return []cache.ObjectName{key}
	}, why)
}

// MapHandler enqueues the keys that the function keys returns for an object. On an
// update, it enqueues the keys of the old and of the new version. A tombstone
// without the object is ignored; the periodic pass covers that deletion.
func MapHandler[T Object](
	q Enqueuer, keys func(T) []cache.ObjectName, why Why[T],
) cache.TypedResourceEventHandler[T] {
	return watchHandler[T]{queue: q, keys: keys, why: why}
}

type watchHandler[T Object] struct {
	queue Enqueuer
	keys  func(T) []cache.ObjectName
	why   Why[T]
}

// OnAdd implements cache.TypedResourceEventHandler.
func (h watchHandler[T]) OnAdd(obj T, _ bool) {
	var none T
	h.enqueue(change[T]{obj, h.why(none, obj)})
}

// OnUpdate implements cache.TypedResourceEventHandler.
func (h watchHandler[T]) OnUpdate(before, after T) {
	var none T
	switch {
	case before.GetUID() != after.GetUID():
		// The object was deleted and created again while the watch was interrupted.
		h.enqueue(change[T]{before, h.why(before, none)}, change[T]{after, h.why(none, after)})
	case before.GetResourceVersion() == after.GetResourceVersion() && after.GetResourceVersion() != "":
		// The object was listed again without a change.
	default:
		why := h.why(before, after)
		h.enqueue(change[T]{before, why}, change[T]{after, why})
	}
}

// OnDelete implements cache.TypedResourceEventHandler.
func (h watchHandler[T]) OnDelete(gone cache.DeletedObject[T]) {
	var none T
	if obj := gone.OptionalObj; obj != none {
		h.enqueue(change[T]{obj, h.why(obj, none)})
	}
}

// change is a version of an object, and the reason for which its keys are enqueued.
type change[T Object] struct {
	obj T
	why Reason
}

// enqueue adds each key once with all its reasons, so that one event starts one pass.
func (h watchHandler[T]) enqueue(changes ...change[T]) {
	reasons := map[cache.ObjectName]Reason{}
	for _, c := range changes {
		if c.why == 0 {
			continue
		}
		for _, key := range h.keys(c.obj) {
			reasons[key] |= c.why
		}
	}
	for key, why := range reasons {
		h.queue.Enqueue(key, why)
	}
}

func nameOf[T Object](obj T) cache.ObjectName {
	return cache.NewObjectName(obj.GetNamespace(), obj.GetName())
}
