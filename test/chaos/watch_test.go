// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// watchLife is the time after which a watch is closed.
	watchLife = time.Second
	// pagedWatchLife is the time after which a watch is closed if lists fail, too. Each failed list
	// doubles the backoff of its informer, up to 30 seconds.
	pagedWatchLife = 10 * time.Second
	// eventDelay is the delay of late events.
	eventDelay = 5 * time.Second
	// initialEventsEnd is the annotation of the bookmark that ends the initial events of a watch.
	initialEventsEnd = "k8s.io/initial-events-end"
	// bookmark is the type of an event that only has a version.
	bookmark = "BOOKMARK"
)

// A watchFault is a fault of all watches of the operator.
type watchFault struct {
	// life ends each watch after a time; 0 for never.
	life time.Duration
	// expired ends a watch with an error 410, so that the client lists again.
	expired bool
	// copies is the number of copies of an event; default 1. Without copies, no event of the types
	// passes.
	copies func(eventType string) int
	// delay delays the events of the resources.
	delay time.Duration
	// resources are those that the fault must meet; without resources, any.
	resources []string
	// pages sends lists in pages; the second page has expired.
	pages bool
	// met has the resources that the fault has met so far.
	met *sync.Map
}

// The effects of faults on the watches and lists of a resource.
const (
	closed        = "closed"
	changedEvents = "events lost or doubled"
	delayed       = "events delayed"
	expiredPages  = "expired between pages"
)

// meets records that the fault had an effect on a resource.
func (f watchFault) meets(effect, resource string) {
	if effect == f.effect() {
		f.met.Store(resource, true)
	}
}

// effect is the effect that the fault must have.
func (f watchFault) effect() string {
	switch {
	case f.pages:
		return expiredPages
	case f.copies != nil:
		return changedEvents
	case f.delay > 0:
		return delayed
	default:
		return closed
	}
}

// resourcesMet are the resources that the fault has met.
func (f watchFault) resourcesMet() sets.Set[string] {
	met := sets.New[string]()
	f.met.Range(func(resource, _ any) bool {
		met.Insert(resource.(string))
		return true
	})
	return met
}

// watchFaults are the faults of watches by name.
var watchFaults = map[string]watchFault{
	"closed each second":         {life: watchLife, resources: custom},
	"expired each second":        {life: watchLife, expired: true, resources: custom},
	"expired between pages":      {life: pagedWatchLife, expired: true, pages: true, resources: []string{"configmaps", "secrets", "deployments", "demoapps"}},
	"doubled events":             {copies: func(string) int { return 2 }, resources: custom},
	"no bookmarks":               {copies: lost(bookmark)},
	"deletions unseen":           {copies: lost("DELETED"), life: watchLife, expired: true},
	"late Secrets":               {delay: eventDelay, resources: []string{"secrets"}},
	"late ConfigMaps, workloads": {delay: eventDelay, resources: []string{"configmaps", "deployments", "statefulsets", "cronjobs"}},
	"late DemoAppClusters":       {delay: eventDelay, resources: []string{"demoappclusters"}},
	"late custom resources":      {delay: eventDelay, resources: custom},
}

// custom are the resources of the subjects.
var custom = []string{
	"demoapps", "demoappclusters", "memcacheds", "deputies", "websites", "webapps", "postgresqls", "appconfigs", "backups", "appstacks",
	"ecommerceplatforms", "memcachedbackups",
}

// lost drops the events of a type.
func lost(eventType string) func(string) int {
	return func(got string) int {
		if got == eventType {
			return 0
		}
		return 1
	}
}

// isWatch reports whether a request is a watch, and of which resource.
func isWatch(r *http.Request) (resource string, ok bool) {
	query := r.URL.Query()
	path := strings.Split(r.URL.Path, "/")
	return path[len(path)-1], r.Method == http.MethodGet && (query.Get("watch") == "1" || query.Get("watch") == "true")
}

// intercept passes a watch on and breaks it.
func (f watchFault) intercept(w http.ResponseWriter, r *http.Request, resource string, forward http.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if f.life > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.life)
		defer cancel()
	}
	// In JSON, an event is a line.
	r = r.WithContext(ctx)
	r.Header.Set("Accept", strings.ReplaceAll(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"))
	lines := &events{to: w, fault: f, resource: resource}
	if slices.Contains(f.resources, resource) {
		lines.delay = f.delay
	}
	lines.writer.Go(func() { lines.write(ctx) })
	func() {
		defer func() {
			// The end of the watch's life interrupts the copy of the answer, which panics.
			if value := recover(); value != nil && value != http.ErrAbortHandler { //nolint:errorlint // The value is the error itself.
				panic(value)
			}
		}()
		forward.ServeHTTP(lines, r)
	}()
	lines.end()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.meets(closed, resource)
		if f.expired {
			lines.expire()
		}
	}
}

// events passes the events of a watch on.
type events struct {
	to       http.ResponseWriter
	fault    watchFault
	resource string
	delay    time.Duration

	writer sync.WaitGroup
	part   []byte

	mu      sync.Mutex
	pending []pendingEvent
	ended   bool
	changed chan struct{}
}

type pendingEvent struct {
	line []byte
	due  time.Time
}

// Header implements http.ResponseWriter.
func (e *events) Header() http.Header { return e.to.Header() }

// WriteHeader implements http.ResponseWriter. The client waits for the header, but not for events.
func (e *events) WriteHeader(code int) {
	e.to.WriteHeader(code)
	e.flush()
}

// Flush implements http.Flusher. Each event is flushed anyway.
func (e *events) Flush() {}

// Write implements http.ResponseWriter.
func (e *events) Write(content []byte) (int, error) {
	e.part = append(e.part, content...)
	for {
		line, rest, complete := bytes.Cut(e.part, []byte("\n"))
		if !complete {
			return len(content), nil
		}
		e.add(slices.Concat(line, []byte("\n")))
		e.part = slices.Clone(rest)
	}
}

// add queues the copies of an event.
func (e *events) add(line []byte) {
	var event struct {
		Type string `json:"type"`
	}
	count := 1
	if json.Unmarshal(line, &event) == nil && e.fault.copies != nil && !bytes.Contains(line, []byte(initialEventsEnd)) {
		count = e.fault.copies(event.Type)
	}
	isBookmark := event.Type == bookmark
	if count == 0 || count > 1 && !isBookmark {
		e.fault.meets(changedEvents, e.resource)
	}
	if e.delay > 0 && !isBookmark {
		e.fault.meets(delayed, e.resource)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for range count {
		e.pending = append(e.pending, pendingEvent{line, time.Now().Add(e.delay)})
	}
	e.signal()
}

// signal wakes the writer. The caller holds mu.
func (e *events) signal() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// next returns the next event, or a channel that is closed when there may be one.
func (e *events) next() (event pendingEvent, ok, ended bool, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) > 0 {
		event, e.pending = e.pending[0], e.pending[1:]
		return event, true, false, nil
	}
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return pendingEvent{}, false, e.ended, e.changed
}

// write writes the events when they are due, until the watch ends.
func (e *events) write(ctx context.Context) {
	for {
		event, ok, ended, changed := e.next()
		switch {
		case ok:
			timer := time.NewTimer(time.Until(event.due))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				return
			}
			e.send(event.line)
		case ended:
			return
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (e *events) send(line []byte) {
	// The client may be gone, which ends the request.
	_, _ = e.to.Write(line)
	e.flush()
}

func (e *events) flush() {
	if flusher, ok := e.to.(http.Flusher); ok {
		flusher.Flush()
	}
}

// end waits for the writer.
func (e *events) end() {
	e.mu.Lock()
	e.ended = true
	e.signal()
	e.mu.Unlock()
	e.writer.Wait()
}

// expire sends the error of a watch whose resource version is too old.
func (e *events) expire() {
	line, err := json.Marshal(map[string]any{"type": "ERROR", "object": metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "expired by the test",
	}})
	if err != nil {
		panic(err) // A Status can always be encoded.
	}
	e.send(append(line, '\n'))
}
