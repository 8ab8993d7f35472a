// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package event emits events as events.k8s.io/v1 accepts them. Deciding which change is worth an
// event is up to a kind: a function of two statuses returns an [Event], and [Emit] sends it.
package event

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/message"
)

// maxNoteBytes is the API server's limit for the note of an event.
const maxNoteBytes = 1024

// Event is one event about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is the machine-readable cause, such as "Installed".
	Reason string
	// Action is the performed action, such as "Install".
	Action string
	// Note is the message for people.
	Note string
}

// Normal returns an event of type Normal.
func Normal(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: note}
}

// Warning returns an event of type Warning.
func Warning(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: note}
}

// Emit sends an event about object and logs it.
func Emit(ctx context.Context, recorder events.EventRecorder, object runtime.Object, e Event) {
	klog.FromContext(ctx).Info("Event", "type", e.Type, "event", e.Reason, "action", e.Action, "note", message.Truncate(e.Note, maxNoteBytes))
	Send(recorder, object, e)
}

// Send sends an event about object. It is for an event whose fact is logged already. A note of more
// than 1,024 bytes is truncated, because the API server would refuse the event.
func Send(recorder events.EventRecorder, object runtime.Object, e Event) {
	recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", message.Truncate(e.Note, maxNoteBytes))
}
