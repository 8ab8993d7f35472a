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

// Object is an API object as informers deliver it: a pointer to a typed one,
// *unstructured.Unstructured or *metav1.PartialObjectMetadata.
type Object interface {
	comparable
	metav1.Object
}

// Enqueuer is the part of a [Controller] that handlers use.
type Enqueuer interface {
	Enqueue(key cache.ObjectName, why Reason)
}

// AddHandler registers handler with any informer whose objects are of type T:
// a generated one, a dynamic one or one for metadata only. The handler gets no
// resyncs. The result names the handler for [Controller.Run].
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

// SpecHandler enqueues the objects that a controller reconciles: with reason
// SpecChange when one appears, its generation or deletionTimestamp changes, or
// one of the named annotations does, and with reason Deleted when it is gone.
// Updates of the status, of other annotations and of labels are ignored. An
// object in the place of another of the same name is both. Kinds that have no
// generation, such as ConfigMap, need a [MapHandler].
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

// specHandler needs only the name of a deleted object, which a tombstone
// without the object has too.
type specHandler[T Object] struct{ watchHandler[T] }

func (h specHandler[T]) OnDelete(gone cache.DeletedObject[T]) {
	h.queue.Enqueue(gone.GetObjectName(), Deleted)
}

// Why says for what reason an event on a watched object concerns the objects
// that are mapped to it. Before is the zero T (nil) when the object appears,
// after when it is gone; both stand for the same UID. 0 means that the event
// does not concern them.
type Why[T Object] func(before, after T) Reason

// Always gives every event the same reason.
func Always[T Object](why Reason) Why[T] {
	return func(_, _ T) Reason { return why }
}

// OwnedHandler enqueues the controlling owner of an object, where that is of
// kind owner and uid knows it, by name, under the UID that the object names:
// the owner's successor of the same name is not meant. When the controlling
// owner changes, the old and the new one are enqueued.
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

// MapHandler enqueues the objects that keys maps an object to: on an update
// those of the old and of the new version. A deletion whose object the
// informer never saw is not delivered; a periodic pass covers it.
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
		// The watch was interrupted while the object was replaced.
		h.enqueue(change[T]{before, h.why(before, none)}, change[T]{after, h.why(none, after)})
	case before.GetResourceVersion() == after.GetResourceVersion() && after.GetResourceVersion() != "":
		// A new list after an interrupted watch, without a change.
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

// change is a version of an object, and the reason for which the objects that
// it maps to are concerned.
type change[T Object] struct {
	obj T
	why Reason
}

// enqueue adds each key once, so that one event does not lead to two passes.
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
