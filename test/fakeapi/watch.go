// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a change of one object, as watches report it.
type event struct {
	version       int
	key           Key
	before, after *unstructured.Unstructured
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// watch streams events until the client ends the request.
func (s *Server) watch(request *http.Request, parsed Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, ok := s.Kinds[parsed.Key.Resource]
	if !ok {
		return s.answer(request, nil, apierrors.NewNotFound(parsed.Key.Resource.GroupResource(), "")), nil
	}
	if s.Refuse != nil {
		if err := s.Refuse(parsed, nil); err != nil {
			return s.answer(request, nil, err), nil
		}
	}
	reader, writer := io.Pipe()
	stream := &stream{server: s, request: parsed, kind: kind, encoder: json.NewEncoder(writer), broken: s.broken}
	stream.version, _ = strconv.Atoi(parsed.Query.Get("resourceVersion"))
	var initial []metav1.WatchEvent
	switch {
	case parsed.Query.Get("sendInitialEvents") == "true":
		initial, stream.version = stream.initial(), s.version
	case stream.version < s.oldest:
		return s.answer(request, nil, apierrors.NewResourceExpired("too old")), nil
	}
	ctx := request.Context()
	context.AfterFunc(ctx, func() { _ = writer.CloseWithError(ctx.Err()) })
	s.watches++
	go func() {
		stream.run(ctx, writer, initial)
		s.With(func() { s.watches-- })
	}()
	response := s.answer(request, nil, nil)
	response.Body, response.ContentLength = reader, -1
	return response, nil
}

// stream is one watch in progress.
type stream struct {
	server  *Server
	request Request
	kind    Kind
	encoder *json.Encoder
	version int
	broken  <-chan struct{}
}

func (w *stream) run(ctx context.Context, writer io.Closer, events []metav1.WatchEvent) {
	defer writer.Close()
	for {
		for _, event := range events {
			if err := w.encoder.Encode(event); err != nil {
				return
			}
		}
		var changed <-chan struct{}
		events, changed = w.next()
		if len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-w.broken:
			return
		case <-ctx.Done():
			return
		}
	}
}

// initial returns the events for the existing objects, and the bookmark that ends them.
func (w *stream) initial() []metav1.WatchEvent {
	var events []metav1.WatchEvent
	for key, object := range w.server.objects {
		if w.request.selects(key, object) {
			events = append(events, w.event(watch.Added, object, 0))
		}
	}
	bookmark := &unstructured.Unstructured{Object: map[string]any{}}
	bookmark.SetGroupVersionKind(w.kind.Kind)
	bookmark.SetResourceVersion(strconv.Itoa(w.server.version))
	bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(events, w.event(watch.Bookmark, bookmark, 0))
}

// next returns the events since the last call, as the selectors see them, and a channel
// that is closed when there may be more.
func (w *stream) next() ([]metav1.WatchEvent, <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if w.server.held {
		return nil, w.server.changed
	}
	var events []metav1.WatchEvent
	for _, event := range w.server.events {
		if event.version <= w.version {
			continue
		}
		was, is := w.request.selects(event.key, event.before), w.request.selects(event.key, event.after)
		switch {
		case was && is:
			events = append(events, w.event(watch.Modified, event.after, 0))
		case is:
			events = append(events, w.event(watch.Added, event.after, 0))
		case was:
			events = append(events, w.event(watch.Deleted, event.before, event.version))
		}
		w.version = event.version
	}
	return events, w.server.changed
}

// event returns a watch event. With a version, the object gets that resourceVersion.
func (w *stream) event(kind watch.EventType, object *unstructured.Unstructured, version int) metav1.WatchEvent {
	if version != 0 {
		object = object.DeepCopy()
		object.SetResourceVersion(strconv.Itoa(version))
	}
	raw, err := json.Marshal(represent(object, w.request))
	if err != nil {
		w.server.t.Errorf("fake server: %v", err)
	}
	return metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
}

// Watches returns the number of watches in progress.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// HoldWatches stops or resumes the delivery of watch events.
func (s *Server) HoldWatches(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.wake()
}

// BreakWatches ends all watches. With expired, the server also forgets its events, so that
// a watch cannot resume where it ended.
func (s *Server) BreakWatches(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if expired {
		s.events, s.oldest = nil, s.version
	}
	close(s.broken)
	s.broken = make(chan struct{})
}
