// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering is a transport that answers each request.
type answering struct{}

// RoundTrip implements http.RoundTripper.
func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestFence: a write is refused from the end of the fence on, until the fence is open again.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		transport := f.wrap(answering{})
		expect := func(when, method string, want error) {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), method, "https://api.invalid", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if !errors.Is(err, want) {
				t.Errorf("%s, %s: error is %v, want %v", when, method, err, want)
			}
			if err == nil {
				_ = response.Body.Close()
			}
		}

		expect("before the first lease", http.MethodPost, nil)
		f.open(time.Now().Add(14 * time.Second))
		time.Sleep(13 * time.Second)
		expect("before the end", http.MethodPatch, nil)
		time.Sleep(time.Second)
		for _, write := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			expect("at the end", write, errFenced)
		}
		expect("at the end", http.MethodGet, nil)
		f.open(time.Now().Add(14 * time.Second))
		expect("after a renewal", http.MethodPatch, nil)
	})
}
