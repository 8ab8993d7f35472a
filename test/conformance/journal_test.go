// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// hookPrefix begins the names of all hooks in the charts, so that requests about them can be told.
const hookPrefix = "hook-"

// request is one that changed something, or was to.
type request struct {
	method string
	// resource is the plural, and name the object's.
	resource, name string
	status         int
}

func (r request) hook() bool    { return strings.HasPrefix(r.name, hookPrefix) }
func (r request) created() bool { return r.status == http.StatusCreated }
func (r request) deleted() bool {
	return r.method == http.MethodDelete && r.status < http.StatusBadRequest
}

// journal keeps the write requests of one player, in the order of their answers.
type journal struct {
	mu       sync.Mutex
	requests []request
	// reads counts the GET requests about objects of a resource.
	reads map[string]int
}

// wrap is for rest.Config.Wrap.
func (j *journal) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(sent)
		if err != nil || sent.URL.Query().Has("watch") {
			return response, err
		}
		resource, name := objectOf(sent.URL.Path)
		j.mu.Lock()
		defer j.mu.Unlock()
		switch {
		case sent.Method != http.MethodGet:
			j.requests = append(j.requests, request{sent.Method, resource, name, response.StatusCode})
		case name != "":
			if j.reads == nil {
				j.reads = map[string]int{}
			}
			j.reads[resource+"/"+name]++
		}
		return response, nil
	})
}

// take returns what was written since the last call.
func (j *journal) take() []request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.requests
	j.requests = nil
	return taken
}

// readsOf is how often the object was read.
func (j *journal) readsOf(object string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reads[object]
}

// roundTripper lets a function be an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// objectOf reads resource and name from the path of a request about an object; the name is empty for a collection.
func objectOf(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	default:
		return "", ""
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return "", ""
	case 1:
		return parts[0], ""
	default:
		return parts[0], parts[1]
	}
}

// hooksOf tells what happened to hooks, in order.
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
			event = "not there to delete"
		case r.created():
			event = "created"
		}
		events = append(events, event+" "+r.resource+"/"+r.name)
	}
	return events
}

// kindsOf is the order in which resources had an object that what holds for. Within one of them objects may come in any
// order.
func kindsOf(requests []request, what func(request) bool) []string {
	var order []string
	for _, r := range requests {
		if !r.hook() && r.resource != "secrets" && what(r) {
			order = append(order, r.resource)
		}
	}
	return slices.Compact(order)
}

// objectsWritten are the objects other than Secrets that were written.
func objectsWritten(requests []request) sets.Set[string] {
	written := sets.New[string]()
	for _, r := range requests {
		if r.resource != "secrets" {
			written.Insert(r.resource + "/" + r.name)
		}
	}
	return written
}
