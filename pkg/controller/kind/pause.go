// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// Pause is the cause of an object's pause. The zero value means that the object is not paused.
type Pause struct {
	// Reason is the reason of the condition Suspended.
	Reason string
	// By names the annotation and the object that has it, for messages.
	By string
	// Why says in one short line why the object is paused; empty if the user did not say it.
	Why string
}

func (p Pause) isSet() bool { return p.By != "" }

// heldByPause is the condition of a paused object with a waiting change.
var heldByPause = Gate{Name: "suspend", Condition: apimeta.ConditionSuspended, Status: metav1.ConditionTrue}

// PauseOf returns the cause of an object's pause: an annotation of the object, or of its Namespace.
func (l *Loop[T, S]) PauseOf(object T) Pause {
	switch {
	case controller.IsPaused(object):
		return Pause{
			Reason: apimeta.ReasonSuspendedByAnnotation, By: "annotation " + apimeta.AnnotationPaused, Why: controller.PausedReason(object),
		}
	case l.namespaces.IsPaused(object.GetNamespace()):
		return Pause{
			Reason: apimeta.ReasonSuspendedByNamespace, By: "annotation " + apimeta.AnnotationPaused + " of Namespace " + object.GetNamespace(),
			Why: l.namespaces.PausedReason(object.GetNamespace()),
		}
	default:
		return Pause{}
	}
}

// suspend reports that no step runs. Apart from that, the status stays as the last pass left
// it. A change of the spec waits.
func (l *Loop[T, S]) suspend(p *Pass[T]) {
	conditions := p.Conditions()
	message := "Nothing of the " + l.kind.GroupVersionKind.Kind + " is changed while " + p.Pause.By + " is true"
	if p.Pause.Why != "" {
		message += ": " + p.Pause.Why
	}
	conditions.Set(apimeta.ConditionSuspended, metav1.ConditionTrue, p.Pause.Reason, message)
	if _, current := conditions.Current(apimeta.ConditionReady); !current {
		conditions.MarkReconciling(p.Pause.Reason, "A change waits until "+p.Pause.By+" is false")
	}
}

// enqueueNamespace enqueues all objects of a namespace that is new, was paused or resumed, or is
// being deleted. Refusals of the API server in an earlier namespace of the name do not count.
func (l *Loop[T, S]) enqueueNamespace(namespace string) {
	l.terminating.refused.Delete(namespace)
	for _, cached := range l.cached {
		for _, key := range cached.ListKeys() {
			if name, err := cache.ParseObjectName(key); err == nil && name.Namespace == namespace {
				l.queue.Enqueue(name, controller.SpecChange)
			}
		}
	}
}
