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

// Watch queues an owner when others change or delete a child of it (reason Drift), and
// when the health or the kept condition of a child changes (reason HealthChange). Own
// writes queue nothing. An object of a deleted owner of the same name queues its successor. A child of another
// owner queues the owners that wait for its name when it is gone (reason DependencyReady).
// Drift of children counts for the metrics of the queue's controller.
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

// handle adds the event handlers of a kind of children, and returns their caches.
func (s *Set) handle(loop Loop, kind Kind) ([]controller.NamedSync, error) {
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

// Loop is the part of kind.Loop that a Set needs: the queue of the owners, the caches that
// their first pass waits for, and two checks that an owner is the newest version. Confirm
// asks the API server each time. ConfirmOnce asks once in the life of the loop.
type Loop interface {
	Queue() *controller.Controller
	Await(synced ...controller.NamedSync)
	Confirm(ctx context.Context, owner metav1.Object) error
	ConfirmOnce(ctx context.Context, owner metav1.Object) error
}

// handler receives the events of one informer.
type handler struct {
	set   *Set
	kind  Kind
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
	// A watch that begins anew leaves out what was in between. The change from what this
	// process last knew counts.
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

// doubt notes if the change to a later version may be an unseen change of the operator's fields. It
// reports whether it did.
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
	// A child that finalizers kept may be awaited, to be created again.
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

// notify queues the owner of a child. While the owner's children are being written, the
// event is kept: it may be the echo of a write whose answer has not come.
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

// notice is a change of a child that a watch told of.
type notice struct {
	uid             types.UID
	resourceVersion string
	gone            bool
	enqueue         func()
}

// flight is one Ensure that is going on. The event of an own write may come before the API
// server's answer, so the events of the owner's children are kept until the end, when it
// is known which writes were its own.
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

// end queues the owner for the events that were not the echo of own writes.
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
