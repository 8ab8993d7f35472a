// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

const (
	// eventsQuiet is the time without a write after which all events are considered delivered.
	eventsQuiet = 100 * time.Millisecond
	// eventsFlushTimeout bounds the wait for the last events.
	eventsFlushTimeout = 2 * time.Second
)

// eventStream delivers events to the API server.
type eventStream struct {
	events.EventBroadcaster
	sink *countingSink
	end  context.CancelFunc
}

// newEventStream starts the delivery of events to apiServer. run delivers the last events and ends
// the stream.
func newEventStream(ctx context.Context, apiServer events.EventSink) (*eventStream, error) {
	sink := &countingSink{EventSink: apiServer}
	s := &eventStream{EventBroadcaster: events.NewBroadcaster(sink), sink: sink}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.StartRecordingToSinkWithContext(ctx); err != nil {
		s.end()
		return nil, fmt.Errorf("starting to record events: %w", err)
	}
	return s, nil
}

// settle waits until the recorded events are delivered, at most for eventsFlushTimeout.
func (s *eventStream) settle() {
	s.sink.waitQuiet(eventsQuiet, eventsFlushTimeout)
}

// run waits for the end of ctx, delivers the recorded events, and ends the stream.
func (s *eventStream) run(ctx context.Context) error {
	<-ctx.Done()
	s.settle()
	s.close()
	return nil
}

// close ends the stream. Events that were not delivered are lost.
func (s *eventStream) close() {
	s.Shutdown()
	s.end()
}

// countingSink counts the writes in flight. The goroutines of the broadcaster cannot be awaited.
// The only sign that all events were delivered is therefore a time without a write.
type countingSink struct {
	events.EventSink

	mu       sync.Mutex
	inFlight int
	last     time.Time
}

// Create implements events.EventSink. An event in a namespace that is being deleted, or is gone, is
// dropped: client-go would log an error.
func (s *countingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.begin()()
	created, err := s.EventSink.Create(ctx, event)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) || isLost(ctx, event, err) {
		return event, nil
	}
	return created, err
}

// Update implements events.EventSink.
func (s *countingSink) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	defer s.begin()()
	written, err := s.EventSink.Update(ctx, event)
	if isLost(ctx, event, err) {
		return event, nil
	}
	return written, err
}

// Patch implements events.EventSink.
func (s *countingSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	defer s.begin()()
	written, err := s.EventSink.Patch(ctx, event, data)
	if isLost(ctx, event, err) {
		return event, nil
	}
	return written, err
}

// isLost reports whether an event was not delivered because the stream ended. This is not an error.
func isLost(ctx context.Context, event *eventsv1.Event, err error) bool {
	if err == nil || ctx.Err() == nil {
		return false
	}
	klog.FromContext(ctx).V(1).Info("An event is lost: the API server did not answer before the stop", "event", event.Reason, "note", event.Note, "err", err)
	return true
}

func (s *countingSink) begin() (end func()) {
	s.note(1)
	return func() { s.note(-1) }
}

func (s *countingSink) note(delta int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += delta
	s.last = time.Now()
}

// waitQuiet waits until there was no write for the time quiet, and at most for timeout.
func (s *countingSink) waitQuiet(quiet, timeout time.Duration) {
	s.note(0)
	deadline := time.Now().Add(timeout)
	tick := time.NewTicker(quiet / 10)
	defer tick.Stop()
	for now := range tick.C {
		s.mu.Lock()
		done := s.inFlight == 0 && now.Sub(s.last) >= quiet
		s.mu.Unlock()
		if done || now.After(deadline) {
			return
		}
	}
}
