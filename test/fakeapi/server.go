// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Server is an API server in memory, and the transport to it: see the package
// documentation.
type Server struct {
	t testing.TB

	mu       sync.Mutex
	version  int
	objects  map[Key]*unstructured.Unstructured
	events   []event
	changed  chan struct{} // Closed and replaced when there are events to deliver.
	held     bool
	broken   chan struct{} // Closed and replaced to end all watches.
	watches  int           // Watches in progress.
	oldest   int           // Events after this version are known.
	requests []Request

	// The fields below may change while the server runs: see With.

	// Kinds are the kinds that the server serves.
	Kinds map[schema.GroupVersionResource]Kind
	// Fault, when set, makes requests fail. It is not asked about watches and
	// discovery.
	Fault func(Request) Fault
	// Refuse, when set, is the server's admission: it returns the error of a refused
	// request. The object is nil for discovery, lists, watches and deletions.
	Refuse func(request Request, object *unstructured.Unstructured) error
	// Validate, when set, refuses the object that a write results in.
	Validate func(object *unstructured.Unstructured) error
	// Prune, when set, removes fields from the result of a write to a status, as the schema of
	// a CRD does.
	Prune func(object *unstructured.Unstructured)
	// React, when set, stands for the cluster's controllers: it changes an object that
	// was just written, and reports whether it did. The change is a write of its own.
	React func(object *unstructured.Unstructured) bool
}

// Kind is a kind that the server serves.
type Kind struct {
	Kind       schema.GroupVersionKind
	Namespaced bool
}

// Key identifies an object, or a collection when the name is empty.
type Key struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name string
}

// New returns a server without objects. It reports its own defects to t.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t:       t,
		version: 1000,
		Kinds:   map[schema.GroupVersionResource]Kind{},
		objects: map[Key]*unstructured.Unstructured{},
		changed: make(chan struct{}),
		broken:  make(chan struct{}),
	}
	for resource, kind := range builtinKinds {
		s.Kinds[resource] = kind
	}
	return s
}

// RESTConfig returns the configuration of clients of the server. They have to use
// HTTPClient.
func (s *Server) RESTConfig() *rest.Config {
	return &rest.Config{Host: "http://fake.invalid", QPS: -1}
}

// HTTPClient returns a client that sends its requests to the server.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s} }

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	parsed, err := s.parse(request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests = append(s.requests, parsed)
	fault := NoFault
	if s.Fault != nil && parsed.Verb != "watch" && parsed.Verb != "discover" {
		fault = s.Fault(parsed)
	}
	s.mu.Unlock()
	switch fault {
	case FailBefore:
		return s.answer(request, nil, apierrors.NewInternalError(errors.New("injected before the effect"))), nil
	case AnswerConflict:
		return s.answer(request, nil, apierrors.NewConflict(parsed.Key.Resource.GroupResource(), parsed.Key.Name, errors.New("injected"))), nil
	case AnswerForbidden:
		return s.answer(request, nil, apierrors.NewForbidden(parsed.Key.Resource.GroupResource(), parsed.Key.Name, errors.New("injected"))), nil
	case AnswerThrottled:
		return s.answer(request, nil, apierrors.NewTooManyRequestsError("injected")), nil
	case EndWatches:
		s.BreakWatches(false)
	}
	if parsed.Verb == "watch" {
		return s.watch(request, parsed)
	}
	result, err := s.serve(parsed)
	switch fault {
	case FailAfter:
		return s.answer(request, nil, apierrors.NewInternalError(errors.New("injected after the effect"))), nil
	case LoseAnswer:
		return nil, io.ErrUnexpectedEOF
	}
	return s.answer(request, result, err), nil
}

// answer returns a response with an object or an error.
func (s *Server) answer(request *http.Request, object any, err error) *http.Response {
	code := http.StatusOK
	header := http.Header{"Content-Type": {"application/json"}}
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			// The API server answers 500 to an error without a reason.
			status = &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
			}}
		}
		answered := status.Status()
		answered.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		object, code = answered, int(answered.Code)
	}
	body, err := json.Marshal(object)
	if err != nil {
		s.t.Errorf("fake server: %v", err)
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}
}

// With changes the exported fields of the server while it runs.
func (s *Server) With(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}
