// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/message"
)

// MaxMessageBytes bounds a condition's message. The limit of metav1.Condition
// is as many characters, so a message within it always fits.
const MaxMessageBytes = 32768

// Editor changes a list of conditions. It is pure: the time is given.
type Editor struct {
	conditions *[]metav1.Condition
	generation int64
	now        metav1.Time
}

// For returns an editor of conditions for an object whose spec was read at
// generation. Conditions that change their status do so at now, in seconds.
func For(conditions *[]metav1.Condition, generation int64, now time.Time) Editor {
	at := metav1.NewTime(now)
	return Editor{conditions: conditions, generation: generation, now: at.Rfc3339Copy()}
}

// Set adds or replaces the condition of a type. A message longer than
// MaxMessageBytes is shortened, and bytes that are not UTF-8 are replaced, as
// the API server would store neither.
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

// Remove drops the conditions of the given types.
func (e Editor) Remove(conditionTypes ...string) {
	*e.conditions = slices.DeleteFunc(*e.conditions, func(c metav1.Condition) bool {
		return slices.Contains(conditionTypes, c.Type)
	})
}

// MarkReady says that the object is as its spec asks: Ready is True.
func (e Editor) MarkReady(reason, message string) {
	e.Remove(apimeta.ConditionReconciling, apimeta.ConditionStalled)
	e.Set(apimeta.ConditionReady, metav1.ConditionTrue, reason, message)
}

// MarkReconciling says that work goes on without anyone's help: Reconciling is
// True, Ready is False.
func (e Editor) MarkReconciling(reason, message string) {
	e.Remove(apimeta.ConditionStalled)
	e.Set(apimeta.ConditionReady, metav1.ConditionFalse, reason, message)
	e.Set(apimeta.ConditionReconciling, metav1.ConditionTrue, reason, message)
}

// MarkStalled says that a person must act: Stalled is True, Ready is False.
func (e Editor) MarkStalled(reason, message string) {
	e.Remove(apimeta.ConditionReconciling)
	e.Set(apimeta.ConditionReady, metav1.ConditionFalse, reason, message)
	e.Set(apimeta.ConditionStalled, metav1.ConditionTrue, reason, message)
}
