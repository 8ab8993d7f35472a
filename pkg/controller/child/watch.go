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
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// Watch queues an owner when another client changes or deletes one of its children (reason Drift).
// A change of the health or the observed condition of a child queues its owner with reason
// HealthChange. Writes of this process queue nothing. An object of a deleted owner queues the new
// owner of the same name. The deletion of an object queues the owners that wait for its name
// (reason DependencyReady). Drift of children counts in the metrics of the queue's controller.
func (s *Set) Watch(loop Loop) error {
	s.queue, s.confirm, s.confirmOnce, s.conditionsOf = loop.Queue(), loop.Confirm, loop.ConfirmOnce, loop.ConditionsOf
	names := map[string]bool{}
	for gvk, kind := range s.kinds {
		if len(kind.template) > 0 && s.fleet == nil {
			var err error
			if s.fleet, err = loop.JoinRollout(standingOf, gates...); err != nil {
				return err
			}
		}
		if names[gvk.Kind] {
			return fmt.Errorf("children of kind %s: the set has two kinds of this name", gvk.Kind)
		}
		names[gvk.Kind] = true
		synced, err := s.handle(kind)
		if err != nil {
			return err
		}
		loop.Await(synced...)
	}
	s.drifts.count = loop.Queue().Drift()
	if s.pods != nil {
		return s.pods.Watch(loop)
	}
	return nil
}

// handle adds the event handlers of a kind of children, and returns the caches to wait for.
func (s *Set) handle(kind ManagedKind) ([]controller.NamedSync, error) {
	var all []controller.NamedSync
	for namespace, informer := range kind.informers {
		synced, err := controller.AddHandler[metav1.Object]("children of kind "+kind.gvk.Kind, informer, s.handler(kind, kind.views[namespace]))
		if err != nil {
			return nil, err
		}
		all = append(all, synced)
	}
	return all, nil
}

// Loop is the part of kind.Loop that a Set needs: the queue of the owners, the caches to sync
// before the first pass, two checks that an owner is the newest version. Confirm sends a
// request each time. ConfirmOnce sends one request in the life of the loop. ConditionsOf returns the
// conditions of an owner in a pass. JoinRollout returns the rollout of the owners, whose standing
// follows from their conditions.
type Loop interface {
	Queue() *controller.Controller
	Await(synced ...controller.NamedSync)
	Confirm(ctx context.Context, owner metav1.Object) error
	ConfirmOnce(ctx context.Context, owner metav1.Object) error
	ConditionsOf(owner metav1.Object) *[]metav1.Condition
	JoinRollout(
		standing func(generation int64, conditions []metav1.Condition) rollout.Standing, gates ...kind.Gate,
	) (*rollout.Fleet, error)
}

// handler handles the events of one informer.
func (s *Set) handler(kind ManagedKind, view *overlay.View[metav1.Object]) overlay.Handler[metav1.Object] {
	return overlay.Handler[metav1.Object]{
		View: view,
		Added: func(object, written metav1.Object) {
			is := kind.observe(object)
			if written != nil {
				doubt(view, kind.observe(written), is)
			}
			s.notify(view, is, is, controller.HealthChange, false)
		},
		Updated: func(before, after metav1.Object) {
			was, is := kind.observe(before), kind.observe(after)
			switch {
			case doubt(view, was, is), was.UID != is.UID, was.trace.Fingerprint != is.trace.Fingerprint, !maps.Equal(was.values, is.values):
				s.notify(view, was, is, controller.Drift, false)
				if controllerOf(was) != controllerOf(is) {
					s.notify(view, is, is, controller.Drift, false)
				}
			case was.Health != is.Health, was.Condition != is.Condition, (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil):
				s.notify(view, is, is, controller.HealthChange, false)
			}
		},
		Deleted: func(object metav1.Object, own bool) {
			// A pass may wait for a child whose deletion finalizers delayed, to create it again.
			if !own || object.GetDeletionTimestamp() != nil {
				is := kind.observe(object)
				s.notify(view, is, is, controller.Drift, true)
			}
			freed := childKey{object.GetNamespace(), id{kind.gvk.Kind, object.GetName()}}
			for _, blocked := range s.blocked.Take(func(b blockedOwner) bool { return b.child == freed }) {
				s.queue.Enqueue(blocked.owner, controller.DependencyReady)
			}
		},
	}
}

// doubt records that the change to a later version may hide a change of the operator's fields, and
// reports whether that is possible.
func doubt(view *overlay.View[metav1.Object], was, is *Observed) bool {
	doubted := was.UID == is.UID && was.trace.MayHide(is.trace)
	if doubted {
		view.Doubt(is)
	}
	return doubted
}

// notify queues the owner of a child. seen is the version of the child in the event. While Ensure
// writes the owner's children, the event is held back: it may be the echo of a write whose answer
// has not arrived.
func (s *Set) notify(view *overlay.View[metav1.Object], child, seen *Observed, why controller.Reason, gone bool) {
	owner, ok := s.ownerOf(child)
	if ok && !s.flights.Hold(overlay.NoticeOf(view, owner, why, seen, gone)) {
		s.queue.Enqueue(owner, why)
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

// end queues the owner for the held events that are not echoes of its writes.
func (s *Set) end(owner cache.ObjectName) {
	for _, n := range s.flights.End(owner) {
		s.queue.Enqueue(owner, n.Change)
	}
}
