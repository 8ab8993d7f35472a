// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// slowSink is a slow API server.
type slowSink struct {
	events.EventSink
	answer    time.Duration
	delivered chan *eventsv1.Event
}

func (s *slowSink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	elapse(s.answer)
	s.delivered <- event
	return event, nil
}

// refusingSink refuses all events.
type refusingSink struct {
	events.EventSink
	err error
}

func (s refusingSink) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, s.err
}

func (s refusingSink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, s.err
}

func (s refusingSink) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, s.err
}

// TestEventsInTerminatingNamespaceAreNotErrors: client-go logs an error for each event that is
// refused.
func TestEventsInTerminatingNamespaceAreNotErrors(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "a", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	forbidden := apierrors.NewForbidden(corev1.Resource("events"), "a", errors.New("no permission"))
	tests := map[string]struct{ answer, want error }{
		"terminating": {terminating, nil},
		"gone":        {apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), nil},
		"forbidden":   {forbidden, forbidden},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sink := &countingSink{EventSink: refusingSink{err: test.answer}}
			if _, err := sink.Create(t.Context(), &eventsv1.Event{}); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
		})
	}
}

// TestEventsOfEndedStreamAreNotErrors: client-go logs an error for each event that it cannot write.
func TestEventsOfEndedStreamAreNotErrors(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	sink := &countingSink{EventSink: refusingSink{err: context.Canceled}}

	_, err := sink.Create(ended, &eventsv1.Event{})
	_, patchErr := sink.Patch(ended, &eventsv1.Event{}, nil)
	_, updateErr := sink.Update(ended, &eventsv1.Event{})

	if err := errors.Join(err, patchErr, updateErr); err != nil {
		t.Errorf("errors after the end: %v", err)
	}
	if _, err := sink.Patch(t.Context(), &eventsv1.Event{}, nil); err == nil {
		t.Error("no error before the end")
	}
}

func TestEventsAreDeliveredBeforeStop(t *testing.T) {
	tests := []struct {
		name      string
		answer    time.Duration // of the API server
		delivered int
		took      time.Duration
	}{
		{name: "fast server", delivered: 3, took: eventsQuiet},
		{name: "slow server", answer: time.Second, delivered: 3, took: time.Second + eventsQuiet},
		{name: "server that hangs", answer: time.Minute, took: eventsFlushTimeout + eventsQuiet/10},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &slowSink{answer: test.answer, delivered: make(chan *eventsv1.Event, 3)}
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := newEventStream(ctx, sink)
				if err != nil {
					t.Fatal(err)
				}
				recorder := stream.NewRecorder(scheme.Scheme, "test")
				for _, name := range []string{"a", "b", "c"} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
					recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Installed", "Install", "installed")
				}
				cancel()
				start := time.Now()
				if err := stream.run(ctx); err != nil {
					t.Errorf("run() = %v", err)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if len(sink.delivered) != test.delivered {
					t.Errorf("%d events were delivered, want %d", len(sink.delivered), test.delivered)
				}
				if test.delivered > 0 {
					if got := (<-sink.delivered).Regarding; got.Kind != "Pod" || got.APIVersion != "v1" {
						t.Errorf("event regards %v", got)
					}
				}
				elapse(test.answer) // a write in flight ends with its answer
			})
		})
	}
}
