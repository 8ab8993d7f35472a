// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
)

// NewFleet returns the fleet of a loop's objects, and has the metrics of the loop count it. memberOf
// describes an object. See [rollout.NewFleet] for the limits. NewFleet starts nothing.
func NewFleet[T Object[T], S any](l *Loop[T, S], limits rollout.Limits, memberOf func(T) rollout.Member) (*rollout.Fleet, error) {
	fleet := rollout.NewFleet(l.queue, l.kind.GroupVersionKind.Kind+"s", limits,
		func(key cache.ObjectName) (rollout.Member, bool) {
			object, ok := l.cached.Get(key)
			if !ok {
				return rollout.Member{}, false
			}
			return memberOf(object), true
		},
		func() (members []rollout.Member) {
			for _, indexer := range l.cached {
				for _, item := range indexer.List() {
					if object, ok := item.(T); ok {
						members = append(members, memberOf(object))
					}
				}
			}
			return members
		})
	l.CountRollout(fleet.Counts)
	if l.queue.Shards() == nil {
		return fleet, nil
	}
	for _, informer := range l.informers {
		if _, err := controller.AddHandler("rollout elsewhere", informer, cache.TypedResourceEventHandlerFuncs[T]{
			AddFunc:    func(object T) { fleet.Follow(memberOf(object)) },
			UpdateFunc: func(_, object T) { fleet.Follow(memberOf(object)) },
			DeleteFunc: func(gone cache.DeletedObject[T]) { fleet.Gone(gone.GetObjectName()) },
		}); err != nil {
			return nil, fmt.Errorf("rollout of %ss: %w", l.kind.GroupVersionKind.Kind, err)
		}
	}
	return fleet, nil
}

// ConditionsOf returns the conditions of an object of the loop. Changes of the conditions of
// p.Object are part of the status that the pass writes.
func (l *Loop[T, S]) ConditionsOf(object metav1.Object) *[]metav1.Condition {
	of, ok := object.(T)
	if !ok {
		return &[]metav1.Condition{}
	}
	return l.kind.Conditions(l.kind.Status(of))
}

// JoinRollout returns the rollout of the loop's objects within Deps.Rollout. standing returns the
// standing of an object that its generation and its conditions report. gates count the objects that
// wait. JoinRollout has no effect once Run runs.
func (l *Loop[T, S]) JoinRollout(
	standing func(generation int64, conditions []metav1.Condition) rollout.Standing, gates ...Gate,
) (*rollout.Fleet, error) {
	l.kind.Gates = append(slices.Clone(l.kind.Gates), gates...)
	fleet, err := NewFleet(l, l.rolloutLimits, func(object T) rollout.Member {
		stands := func() rollout.Standing { return standing(object.GetGeneration(), *l.ConditionsOf(object)) }
		return rollout.Member{
			Key: cache.MetaObjectToName(object), Deleting: object.GetDeletionTimestamp() != nil,
			Recall: func(context.Context) (rollout.Standing, bool) { return stands(), true },
			Failed: func() bool { return stands() == rollout.Failed },
		}
	})
	l.fleet = fleet
	return fleet, err
}

// leaveRollout ends the turn of an object for which no steps run.
func (l *Loop[T, S]) leaveRollout(key cache.ObjectName) {
	if l.fleet != nil {
		l.fleet.Set(key, rollout.Settled)
	}
}
