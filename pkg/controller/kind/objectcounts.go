// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// Gate defines the condition of an object whose changes wait, for the metric
// controller_held_resources.
type Gate struct {
	// Name is the value of the label "gate". Several gates of a kind may have one name.
	Name string
	// Condition and Status identify the condition of an object that the gate holds.
	Condition string
	Status    metav1.ConditionStatus
	// Reasons are the reasons of that condition; empty for all reasons.
	Reasons []string
	// NeedsUser says that a user must act, so that an event about the hold is a warning.
	NeedsUser bool
}

// HeldFor returns the gate of objects that are not Ready for one of these reasons, and need a user.
func HeldFor(name string, reasons ...string) Gate {
	return Gate{Name: name, Condition: apimeta.ConditionReady, Status: metav1.ConditionFalse, Reasons: reasons, NeedsUser: true}
}

// Holds reports whether the gate holds an object with these conditions.
func (g Gate) Holds(conditions []metav1.Condition) bool {
	found := meta.FindStatusCondition(conditions, g.Condition)
	return found != nil && found.Status == g.Status && (len(g.Reasons) == 0 || slices.Contains(g.Reasons, found.Reason))
}

// countObjects counts the cached objects of the shards that the process holds. It returns false
// while a cache has not synced.
func (l *Loop[T, S]) countObjects() (controller.ObjectCounts, bool) {
	for _, synced := range l.cachesSynced {
		if !synced() {
			return controller.ObjectCounts{}, false
		}
	}
	counts := controller.ObjectCounts{
		States: map[controller.State]int{}, Held: map[string]int{}, Namespaces: map[string]controller.NamespaceCounts{},
	}
	for _, gate := range l.kind.Gates {
		counts.Held[gate.Name] = 0
	}
	for _, cached := range l.cached {
		for _, item := range cached.List() {
			if object, ok := item.(T); ok && l.queue.Shards().Holds(object.GetNamespace()) {
				fails := l.queue.Fails(cache.MetaObjectToName(object))
				addObject(&counts, object, *l.kind.Conditions(l.kind.Status(object)), l.kind.Gates, l.kind.Warnings, fails)
			}
		}
	}
	if l.countRollout != nil {
		found := l.countRollout()
		counts.Rollout = &found
	}
	return counts, true
}

// addObject adds an object to the counts.
func addObject(
	counts *controller.ObjectCounts, object metav1.Object, conditions []metav1.Condition, gates []Gate, warnings []Warning, fails bool,
) {
	state, deleted := stateOf(object, conditions), object.GetDeletionTimestamp()
	counts.States[state]++
	namespace := counts.Namespaces[object.GetNamespace()]
	if state != controller.StateReady {
		if namespace.States == nil {
			namespace.States = map[controller.State]int{}
		}
		namespace.States[state]++
	}
	if fails {
		namespace.Failing++
	}
	if deleted != nil && (namespace.OldestDeletion.IsZero() || deleted.Time.Before(namespace.OldestDeletion)) {
		namespace.OldestDeletion = deleted.Time
	}
	for _, warning := range warnings {
		if deleted == nil && warning.find(conditions) != nil {
			if namespace.Warnings == nil {
				namespace.Warnings = map[string]int{}
			}
			namespace.Warnings[warning.Name]++
		}
	}
	counts.Namespaces[object.GetNamespace()] = namespace
	if deleted != nil {
		return
	}
	for i, gate := range gates {
		counted := func(other Gate) bool { return other.Name == gate.Name && other.Holds(conditions) }
		if gate.Holds(conditions) && !slices.ContainsFunc(gates[:i], counted) {
			counts.Held[gate.Name]++
		}
	}
}

// stateOf returns the state of an object. Conditions of an older generation say nothing
// about the newest one, so the object is then reconciling.
func stateOf(object metav1.Object, conditions []metav1.Condition) controller.State {
	is := func(conditionType string) bool {
		found := meta.FindStatusCondition(conditions, conditionType)
		return found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration >= object.GetGeneration()
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		return controller.StateDeleting
	case is(apimeta.ConditionStalled):
		return controller.StateStalled
	case is(apimeta.ConditionReady):
		return controller.StateReady
	default:
		return controller.StateReconciling
	}
}
