// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// Watch queues an owner when another client changes or deletes one of its children (reason Drift).
// A change of the health or the observed condition of a child queues its owner with reason
// HealthChange. Writes of this process queue nothing. An object of a deleted owner queues the new
// owner of the same name. The deletion of an object queues the owners that wait for its name
// (reason DependencyReady). Drift of children counts in the metrics of the queue's controller.
func (s *Set) Watch(loop Loop) error {
	s.confirm, s.confirmOnce = loop.Confirm, loop.ConfirmOnce
	names := map[string]bool{}
	for gvk, kind := range s.kinds {
		if names[gvk.Kind] {
			return fmt.Errorf("children of kind %s: the set has two kinds of this name", gvk.Kind)
		}
		names[gvk.Kind] = true
		synced, err := s.handle(loop, kind)
		if err != nil {
			return err
		}
		loop.Await(synced...)
	}
	s.drifts.count = loop.Queue().Drift()
	return nil
}

// handle adds the event handlers of a kind of children, and returns the caches to wait for.
func (s *Set) handle(loop Loop, kind ManagedKind) ([]controller.NamedSync, error) {
	var all []controller.NamedSync
	for namespace, informer := range kind.informers {
		synced, err := controller.AddHandler[metav1.Object]("children of kind "+kind.gvk.Kind, informer,
			&handler{set: s, kind: kind, queue: loop.Queue(), view: kind.views[namespace]})
		if err != nil {
			return nil, err
		}
		all = append(all, synced)
	}
	return all, nil
}

// Loop is the part of kind.Loop that a Set needs: the queue of the owners, the caches to sync
// before the first pass, and two checks that an owner is the newest version. Confirm sends a
// request each time. ConfirmOnce sends one request in the life of the loop.
type Loop interface {
	Queue() *controller.Controller
	Await(synced ...controller.NamedSync)
	Confirm(ctx context.Context, owner metav1.Object) error
	ConfirmOnce(ctx context.Context, owner metav1.Object) error
}

// handler receives the events of one informer.
type handler struct {
	set   *Set
	kind  ManagedKind
	queue controller.Enqueuer
	view  *overlay.View[metav1.Object]
}

// OnAdd implements cache.TypedResourceEventHandler.
func (h *handler) OnAdd(object metav1.Object, _ bool) {
	own := h.view.IsOwn(object)
	written, known := h.view.Own(object)
	h.view.Settle(object)
	if !own {
		if known {
			h.doubt(h.kind.observe(written), h.kind.observe(object))
		}
		h.notify(h.kind.observe(object), controller.HealthChange, false)
	}
}

// OnUpdate implements cache.TypedResourceEventHandler.
func (h *handler) OnUpdate(before, after metav1.Object) {
	was, is := h.kind.observe(before), h.kind.observe(after)
	own := h.view.IsOwn(after)
	// A restarted watch skips intermediate versions. Compare with the newest version that this
	// process knows.
	if written, ok := h.view.Own(after); ok && !overlay.AtLeast(was.ResourceVersion, written.GetResourceVersion()) {
		was = h.kind.observe(written)
	}
	h.view.Settle(after)
	switch {
	case own, before.GetResourceVersion() == after.GetResourceVersion():
	case h.doubt(was, is), was.UID != is.UID, was.trace.Fingerprint != is.trace.Fingerprint, !maps.Equal(was.values, is.values):
		h.notify(was, controller.Drift, false)
		if controllerOf(was) != controllerOf(is) {
			h.notify(is, controller.Drift, false)
		}
	case was.Health != is.Health, was.Condition != is.Condition, (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil):
		h.notify(is, controller.HealthChange, false)
	}
}

// doubt records that the change to a later version may hide a change of the operator's fields, and
// reports whether that is possible.
func (h *handler) doubt(was, is *Observed) bool {
	doubted := was.UID == is.UID && was.trace.MayHide(is.trace)
	if doubted {
		h.view.Doubt(is)
	}
	return doubted
}

// OnDelete implements cache.TypedResourceEventHandler.
func (h *handler) OnDelete(gone cache.DeletedObject[metav1.Object]) {
	if gone.OptionalObj == nil {
		return // A periodic pass covers an object that the informer never saw.
	}
	// A pass may wait for a child whose deletion finalizers delayed, to create it again.
	own := h.view.IsOwnDelete(gone.OptionalObj) && gone.OptionalObj.GetDeletionTimestamp() == nil
	h.view.Settle(gone.OptionalObj)
	if !own {
		h.notify(h.kind.observe(gone.OptionalObj), controller.Drift, true)
	}
	freed := childKey{gone.OptionalObj.GetNamespace(), id{h.kind.gvk.Kind, gone.OptionalObj.GetName()}}
	for _, blocked := range h.set.blocked.Take(func(b blockedOwner) bool { return b.child == freed }) {
		h.queue.Enqueue(blocked.owner, controller.DependencyReady)
	}
}

// notify queues the owner of a child. While Ensure writes the owner's children, the event is held
// back: it may be the echo of a write whose answer has not arrived.
func (h *handler) notify(child *Observed, why controller.Reason, gone bool) {
	owner, ok := h.set.ownerOf(child)
	if !ok {
		return
	}
	e := notice{uid: child.UID, resourceVersion: child.ResourceVersion, gone: gone, enqueue: func() { h.queue.Enqueue(owner, why) }}
	if !h.set.hold(owner, e) {
		e.enqueue()
	}
}

// ownerOf returns the owner of a child by name, whatever its UID.
func (s *Set) ownerOf(child *Observed) (cache.ObjectName, bool) {
	ref := metav1.GetControllerOfNoCopy(child)
	if ref == nil || ref.Kind != s.owner.Kind || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group != s.owner.Group {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(child.Namespace, ref.Name), true
}

func controllerOf(child *Observed) types.UID {
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		return ref.UID
	}
	return ""
}

// notice is a watch event of a child.
type notice struct {
	uid             types.UID
	resourceVersion string
	gone            bool
	enqueue         func()
}

// flight is a call of Ensure in progress. The event of a write may arrive before the API server's
// answer. So the events of the owner's children are held back until the end, when all writes of the
// call are known.
type flight struct {
	set     *Set
	held    []notice
	wrote   map[types.UID]string
	deleted map[types.UID]bool
}

func (s *Set) begin(owner metav1.Object) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &flight{set: s, wrote: map[types.UID]string{}, deleted: map[types.UID]bool{}}
	s.flights[cache.MetaObjectToName(owner)] = f
	return f
}

func (s *Set) hold(owner cache.ObjectName, e notice) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.flights[owner]
	if ok {
		f.held = append(f.held, e)
	}
	return ok
}

func (f *flight) noteWrite(object metav1.Object) {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.wrote[object.GetUID()] = object.GetResourceVersion()
}

func (f *flight) noteDelete(object metav1.Object) {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.deleted[object.GetUID()] = true
}

// end queues the owner for the held events that are not echoes of its writes.
func (s *Set) end(owner metav1.Object, f *flight) {
	s.mu.Lock()
	delete(s.flights, cache.MetaObjectToName(owner))
	s.mu.Unlock()
	for _, e := range f.held {
		written, wrote := f.wrote[e.uid]
		if own := f.deleted[e.uid] || wrote && !e.gone && overlay.AtLeast(written, e.resourceVersion); !own {
			e.enqueue()
		}
	}
}
