// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// recorder remembers the last event.
type recorder struct {
	regarding, related runtime.Object
	event              Event
}

func (r *recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.regarding, r.related = regarding, related
	r.event = Event{Type: eventType, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)}
}

func TestEmit(t *testing.T) {
	tests := []struct {
		name        string
		event, want Event
	}{
		{"normal", Normal("Installed", "Install", "fine"), Event{"Normal", "Installed", "Install", "fine"}},
		{"warning", Warning("Refused", "Reconcile", "bad"), Event{"Warning", "Refused", "Reconcile", "bad"}},
		{"percent sign", Normal("R", "A", "100 %s"), Event{"Normal", "R", "A", "100 %s"}},
		{"note of the longest size", Normal("R", "A", strings.Repeat("x", 1024)), Event{"Normal", "R", "A", strings.Repeat("x", 1024)}},
		{"note that is too long", Normal("R", "A", strings.Repeat("x", 1025)), Event{"Normal", "R", "A", strings.Repeat("x", 1021) + "..."}},
		{"cut inside a character", Normal("R", "A", strings.Repeat("ü", 1024)), Event{"Normal", "R", "A", strings.Repeat("ü", 510) + "..."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, pod := &recorder{}, &corev1.Pod{}

			Emit(t.Context(), r, pod, test.event)

			if r.event != test.want {
				t.Errorf("event is %+v, want %+v", r.event, test.want)
			}
			if r.regarding != pod || r.related != nil {
				t.Errorf("event is about %v and %v, want the Pod only", r.regarding, r.related)
			}
		})
	}
}
