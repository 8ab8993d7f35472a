// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/example/demoapp-controller/pkg/inspect"
)

const (
	// batchEvery is the least time between two messages about all objects.
	batchEvery = 250 * time.Millisecond
	// maxBatch is the number of objects in a message.
	maxBatch = 500
	// readEvery is the least time between two reads of one object's page, and readAnyway the time
	// after which it is read without a sign of a change.
	readEvery  = time.Second
	readAnyway = 15 * time.Second
	// beatEvery is the time after which an idle stream sends a comment, so that both sides notice a
	// lost connection.
	beatEvery = 15 * time.Second
	// writeWithin is the time that a browser has to take a message.
	writeWithin = 10 * time.Second
)

// stream writes server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type stream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
}

// open begins a stream. The caller must call done. It fails if there are too many streams.
func (s *Server) open(w http.ResponseWriter) (out stream, done func(), err error) {
	select {
	case s.streams <- struct{}{}:
	default:
		return stream{}, nil, fmt.Errorf("more than %d tabs are open", maxStreams)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out = stream{w, http.NewResponseController(w)}
	return out, func() { <-s.streams }, out.write([]byte(": open\n\n"))
}

// write writes a text, which the browser has to take within a time.
func (s stream) write(text []byte) error {
	// A server in tests has no deadlines.
	_ = s.controller.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.controller.Flush()
}

// send sends a message. A browser that lost the connection continues behind the last id; an empty
// one leaves it.
func (s stream) send(event, id string, content []byte) error {
	var text bytes.Buffer
	if id != "" {
		fmt.Fprintf(&text, "id: %s\n", id)
	}
	fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", event, content)
	return s.write(text.Bytes())
}

// streamApps sends the summaries of all objects, and then the changes.
func (s *Server) streamApps(w http.ResponseWriter, r *http.Request) {
	out, done, err := s.open(w)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer done()
	since, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	first := true
	for {
		changed := s.watch.Changed()
		changes := s.watch.Changes(since)
		if first || changes.Version != since {
			if s.sendChanges(out, changes) != nil {
				return
			}
		}
		first, since = false, changes.Version
		if !beatUntil(r.Context(), out, changed) || !pause(r.Context(), batchEvery) {
			return
		}
	}
}

// sendChanges sends changes in messages of limited size. Only the last one has the version.
func (s *Server) sendChanges(out stream, changes inspect.Changes) error {
	message := s.appsMessage(changes)
	batches := slices.Collect(slices.Chunk(changes.Objects, maxBatch))
	for i := range max(len(batches), 1) {
		id := ""
		if i < len(batches) {
			message.Apps = appViews(batches[i])
		}
		if message.Last = i >= len(batches)-1; message.Last {
			id = strconv.FormatUint(changes.Version, 10)
		}
		content, err := json.Marshal(message)
		if err != nil {
			return err
		}
		if err := out.send("apps", id, content); err != nil {
			return err
		}
		message = appsMessage{}
	}
	return nil
}

// streamApp sends the page of an object whenever it changes.
func (s *Server) streamApp(w http.ResponseWriter, r *http.Request) {
	object, err := s.object(r)
	if err != nil {
		fail(w, err)
		return
	}
	out, done, err := s.open(w)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer done()
	ctx, stop := context.WithCancel(r.Context())
	signs := make(chan struct{}, 1)
	// Without signs, the page is still read again from time to time.
	var watching sync.WaitGroup
	watching.Go(func() { _ = s.signs(ctx, object.Namespace, signs) })
	defer watching.Wait()
	defer stop()
	var last []byte
	for {
		event, content := s.page(ctx, object)
		if !bytes.Equal(content, last) {
			if out.send(event, "", content) != nil {
				return
			}
			last = content
		} else if out.write([]byte(": unchanged\n\n")) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-signs:
		case <-time.After(readAnyway):
		}
		if !pause(ctx, readEvery) {
			return
		}
	}
}

// signs signals that something in a namespace has changed, until the context ends.
func (s *Server) signs(ctx context.Context, namespace string, signs chan<- struct{}) error {
	signal := func() {
		select {
		case signs <- struct{}{}:
		default:
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Cluster.Follow(ctx, namespace, signal) }()
	since := s.watch.Changes(0).Version
	for {
		changed := s.watch.Changed()
		changes := s.watch.Changes(since)
		since = changes.Version
		concerns := slices.ContainsFunc(changes.Objects, func(o inspect.Summary) bool { return o.Namespace == namespace }) ||
			slices.ContainsFunc(changes.Removed, func(o inspect.Reference) bool { return o.Namespace == namespace })
		if changes.Reset || concerns {
			signal()
		}
		select {
		case <-ctx.Done():
			return <-ended
		case <-changed:
		}
		if !pause(ctx, batchEvery) {
			return <-ended
		}
	}
}

// beatUntil waits for a signal and sends comments meanwhile. It returns false if the stream ended.
func beatUntil(ctx context.Context, out stream, signal <-chan struct{}) bool {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-signal:
			return true
		case <-beat.C:
			if out.write([]byte(": beat\n\n")) != nil {
				return false
			}
		}
	}
}

// pause waits. It returns false if the context ends before.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
