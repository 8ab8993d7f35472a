// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/message"
)

// MaxMessageBytes bounds a condition's message, in bytes. metav1.Condition allows
// the same number of characters, so a bounded message is always valid.
const MaxMessageBytes = 32768

// Editor changes a list of conditions. It uses the time that [For] received.
type Editor struct {
	conditions *[]metav1.Condition
	generation int64
	now        metav1.Time
}

// For returns an editor of conditions. generation is the observedGeneration of the
// conditions that it sets. now is their lastTransitionTime, truncated to seconds.
func For(conditions *[]metav1.Condition, generation int64, now time.Time) Editor {
	at := metav1.NewTime(now)
	return Editor{conditions: conditions, generation: generation, now: at.Rfc3339Copy()}
}

// Set adds or replaces the condition of a type. It truncates a message longer than
// MaxMessageBytes and replaces invalid UTF-8, because the API server rejects both.
func (e Editor) Set(conditionType string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(e.conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		ObservedGeneration: e.generation,
		LastTransitionTime: e.now,
		Reason:             reason,
		Message:            message.Truncate(text, MaxMessageBytes),
	})
}

// Current returns the condition of a type. It returns false if the object has no such condition for
// its generation.
func (e Editor) Current(conditionType string) (metav1.Condition, bool) {
	found := meta.FindStatusCondition(*e.conditions, conditionType)
	if found == nil || found.ObservedGeneration != e.generation {
		return metav1.Condition{}, false
	}
	return *found, true
}

// Remove removes the conditions of the given types.
func (e Editor) Remove(conditionTypes ...string) {
	*e.conditions = slices.DeleteFunc(*e.conditions, func(c metav1.Condition) bool {
		return slices.Contains(conditionTypes, c.Type)
	})
}

// MarkReady sets Ready to True: the observed state is the desired state.
func (e Editor) MarkReady(reason, message string) {
	e.Remove(apimeta.ConditionReconciling, apimeta.ConditionStalled)
	e.Set(apimeta.ConditionReady, metav1.ConditionTrue, reason, message)
}

// MarkReconciling sets Reconciling to True and Ready to False: the controller
// works, and no person must act.
func (e Editor) MarkReconciling(reason, message string) {
	e.Remove(apimeta.ConditionStalled)
	e.Set(apimeta.ConditionReady, metav1.ConditionFalse, reason, message)
	e.Set(apimeta.ConditionReconciling, metav1.ConditionTrue, reason, message)
}

// MarkStalled sets Stalled to True and Ready to False: a person must act.
func (e Editor) MarkStalled(reason, message string) {
	e.Remove(apimeta.ConditionReconciling)
	e.Set(apimeta.ConditionReady, metav1.ConditionFalse, reason, message)
	e.Set(apimeta.ConditionStalled, metav1.ConditionTrue, reason, message)
}
