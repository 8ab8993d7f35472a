// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// answersKey is the context key of a func(code int), which hears of the answers to a list or watch.
type answersKey struct{}

// Transport reports to a watched kind the codes of the answers to its lists and watches. client-go
// repeats requests that the API server puts off, without an error for as long as that lasts. The API
// server puts off each watch of a kind whose conversion webhook is away: it answers 429, because it
// cannot fill its own cache of the kind.
type Transport struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Next.RoundTrip(request)
	if answered, ok := request.Context().Value(answersKey{}).(func(code int)); ok && err == nil {
		answered(response.StatusCode)
	}
	return response, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }

// telling returns the source with requests that report their answers.
func (s source) telling(answered func(code int)) source {
	list, start := s.list, s.watch
	s.list = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(context.WithValue(ctx, answersKey{}, answered), options)
	}
	s.watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return start(context.WithValue(ctx, answersKey{}, answered), options)
	}
	return s
}
