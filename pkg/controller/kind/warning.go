// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
)

// Warning is a condition that is False for a reason that an owner should know, although the object
// may be Ready. The metric controller_namespace_warnings counts the objects with it, and an event
// says when it begins.
type Warning struct {
	// Name is the value of the label "warning".
	Name string
	// Condition is the type of the condition.
	Condition string
	// Reasons are the reasons that warn.
	Reasons []string
}

// find returns the condition that warns; nil if it does not.
func (w Warning) find(conditions []metav1.Condition) *metav1.Condition {
	found := meta.FindStatusCondition(conditions, w.Condition)
	if found == nil || found.Status != metav1.ConditionFalse || !slices.Contains(w.Reasons, found.Reason) {
		return nil
	}
	return found
}

// warningEvents returns the events of the warnings that begin with the conditions after. A warning
// that is the reason of Ready has the event of Ready.
func warningEvents(warnings []Warning, before, after []metav1.Condition) []event.Event {
	var events []event.Event
	for _, warning := range warnings {
		is, was := warning.find(after), warning.find(before)
		if is == nil || was != nil && was.Reason == is.Reason {
			continue
		}
		if ready := meta.FindStatusCondition(after, apimeta.ConditionReady); ready == nil || ready.Reason != is.Reason {
			events = append(events, event.Warning(is.Reason, "Reconcile", is.Message))
		}
	}
	return events
}
