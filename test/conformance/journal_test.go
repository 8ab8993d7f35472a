// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hookPrefix begins the names of all hooks in the charts, and so identifies requests about them.
const hookPrefix = "hook-"

// request is a write request, successful or not.
type request struct {
	method string
	// resource is the plural name, and name the object's name.
	resource, name string
	status         int
}

func (r request) hook() bool    { return strings.HasPrefix(r.name, hookPrefix) }
func (r request) created() bool { return r.status == http.StatusCreated }
func (r request) deleted() bool {
	return r.method == http.MethodDelete && r.status < http.StatusBadRequest
}

// journal has the write requests of one player, in the order of their answers.
type journal struct {
	mu       sync.Mutex
	requests []request
	// touched are the places in which the player has read or written objects.
	touched map[place]bool
}

// place is a resource in a namespace, or a cluster-scoped resource.
type place struct {
	schema.GroupVersionResource

	namespace string
}

// target is the object of a request; the name is empty for a collection.
type target struct {
	place

	name string
}

// wrap is a function for rest.Config.Wrap.
func (j *journal) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		about := targetOf(sent.URL.Path)
		if sent.Method != http.MethodGet || about.name != "" {
			j.touch(about.place)
		}
		response, err := next.RoundTrip(sent)
		if err != nil || sent.Method == http.MethodGet {
			return response, err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.requests = append(j.requests, request{sent.Method, about.Resource, about.name, response.StatusCode})
		return response, nil
	})
}

// touch records a place before the request is sent, since a request without an answer may have had
// an effect.
func (j *journal) touch(p place) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.touched == nil {
		j.touched = map[place]bool{}
	}
	j.touched[p] = true
}

// places returns where the player may have created objects.
func (j *journal) places() []place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.touched))
}

// take returns the requests since the last call.
func (j *journal) take() []request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.requests
	j.requests = nil
	return taken
}

// forget empties the journal.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests, j.touched = nil, nil
}

// roundTripper makes a function an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// targetOf returns the target of a request's path.
func targetOf(path string) target {
	var t target
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		t.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		t.Group, t.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return target{}
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.Resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	return t
}

// hooksOf returns the events of hooks, in order.
func hooksOf(requests []request) []string {
	var events []string
	for _, r := range requests {
		if !r.hook() {
			continue
		}
		event := "applied"
		switch {
		case r.status >= http.StatusBadRequest && r.status != http.StatusNotFound:
			event = "refused"
		case r.method == http.MethodDelete && r.deleted():
			event = "deleted"
		case r.method == http.MethodDelete:
			continue // No object was deleted. The engine reads before it deletes.
		case r.created():
			event = "created"
		}
		name := " " + r.resource + "/" + r.name
		// The engine applies over a hook of an earlier run only after a create has failed.
		if last := len(events) - 1; event == "applied" && last >= 0 && events[last] == "refused"+name {
			events = events[:last]
		}
		events = append(events, event+name)
	}
	return events
}

// kindsOf returns the resources of the objects for which what holds, in order. The order within one
// resource does not count.
func kindsOf(requests []request, what func(request) bool) []string {
	var order []string
	for _, r := range requests {
		if !r.hook() && r.resource != "secrets" && what(r) {
			order = append(order, r.resource)
		}
	}
	return slices.Compact(order)
}
