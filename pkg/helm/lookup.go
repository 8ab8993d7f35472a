// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/helm/guard"
)

// lookups is the source of the client for the template function lookup, for one operation.
// Helm discovers the kind at each call, sets no deadline, and reduces errors to text. This
// type answers from the known kinds, applies the operation's deadline, and keeps errors.
type lookups struct {
	*kindMapper

	operation *operation
	// used says that a template has looked something up.
	used atomic.Bool

	mu sync.Mutex
	// failures are the errors of requests that have not succeeded since, by their URL.
	failures map[string]error
}

// ToRESTConfig implements action.RESTClientGetter.
func (l *lookups) ToRESTConfig() (*rest.Config, error) {
	config := rest.CopyConfig(l.operation.engine.remote)
	next := config.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	config.Transport = &lookupTransport{lookups: l, next: next}
	return config, nil
}

// failure returns the error of a lookup; nil when none failed. A missing object is not an
// error.
func (l *lookups) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.failures {
		return fmt.Errorf("lookup in chart of %s: %w", l.operation.release, err)
	}
	return nil
}

func (l *lookups) note(request *http.Request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failures, request.URL.String())
		return
	}
	if l.failures == nil {
		l.failures = map[string]error{}
	}
	l.failures[request.URL.String()] = err
}

type lookupTransport struct {
	lookups *lookups
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *lookupTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.lookups.used.Store(true)
	if version, ok := discovered(request.URL.Path); ok {
		if kinds, err := t.lookups.KindsOf(version); err == nil {
			return answerJSON(request, kinds)
		}
	}
	if err := t.lookups.allow(request.URL.Path); err != nil {
		t.lookups.note(request, err)
		return nil, err
	}
	t.lookups.operation.rendering.Pause()
	response, err := t.next.RoundTrip(request.WithContext(t.lookups.operation.ctx))
	if err != nil {
		t.lookups.note(request, err)
		return nil, err
	}
	if response.StatusCode < http.StatusBadRequest || response.StatusCode == http.StatusNotFound {
		t.lookups.note(request, nil)
		return response, nil
	}
	refusal, err := refusalOf(response)
	t.lookups.note(request, refusal)
	return response, err
}

// allow fails for a lookup of objects in all namespaces, unless the release may have objects there.
// Values can choose the objects that a template looks up.
func (l *lookups) allow(path string) error {
	bounds := l.operation.bounds
	if guard.RequestNamespace(path) != "" || bounds.Scope == ScopeCluster && len(bounds.Namespaces) == 0 {
		return nil // The transport checks lookups in one namespace.
	}
	version, resource := requestResource(path)
	if version == "" {
		return nil // The request is not about objects.
	}
	kinds, err := l.KindsOf(version)
	if err != nil {
		return fmt.Errorf("kinds of %s: %w", version, err)
	}
	for _, kind := range kinds.APIResources {
		if kind.Name == resource && kind.Namespaced {
			return fmt.Errorf("lookup of %s in all namespaces: the release may have objects in its own namespace only", resource)
		}
	}
	return nil
}

// requestResource returns the group version and the resource of a request without a
// namespace.
func requestResource(path string) (version, resource string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		return parts[1], parts[2]
	case len(parts) > 3 && parts[0] == "apis":
		return parts[1] + "/" + parts[2], parts[3]
	default:
		return "", ""
	}
}

// discovered returns the group version whose kinds the path asks for.
func discovered(path string) (version string, ok bool) {
	if version, ok = strings.CutPrefix(path, "/api/"); ok {
		return version, !strings.Contains(version, "/")
	}
	version, ok = strings.CutPrefix(path, "/apis/")
	return version, ok && strings.Count(version, "/") == 1
}

// answerJSON returns a response with the object.
func answerJSON(request *http.Request, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, nil
}

// maxRefusal limits the bytes that are read of an error response.
const maxRefusal = 64 << 10

// refusalOf returns the error in a response. The response can be read again.
func refusalOf(response *http.Response) (refusal, err error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	status := metav1.Status{}
	if err := json.Unmarshal(body, &status); err != nil || status.Status != metav1.StatusFailure {
		return fmt.Errorf("the API server answered %s", response.Status), nil
	}
	return apierrors.FromObject(&status), nil
}
