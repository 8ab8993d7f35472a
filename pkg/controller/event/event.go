// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package event emits the events of objects.
package event

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Event is one event as the API server takes it.
type Event struct {
	// Type is Normal or Warning.
	Type, Reason, Action, Note string
}

// Emit emits an event about an object.
func Emit(recorder events.EventRecorder, object runtime.Object, e Event) {
	recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
}
