// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// Transition returns the event of a condition Ready that has another status or reason
// than before, or the same for another generation. Progress is no transition: a status
// whose reason is [apimeta.ReasonProgressing] or [apimeta.ReasonDeleting] brings no event.
func Transition(before, after []metav1.Condition) (Event, bool) {
	is := meta.FindStatusCondition(after, apimeta.ConditionReady)
	if is == nil || is.Reason == apimeta.ReasonProgressing || is.Reason == apimeta.ReasonDeleting {
		return Event{}, false
	}
	was := meta.FindStatusCondition(before, apimeta.ConditionReady)
	if was != nil && was.Status == is.Status && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration {
		return Event{}, false
	}
	e := Event{Type: corev1.EventTypeWarning, Reason: is.Reason, Action: "Reconcile", Note: is.Message}
	if is.Status == metav1.ConditionTrue {
		e.Type = corev1.EventTypeNormal
	}
	return e, true
}
