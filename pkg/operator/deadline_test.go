// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// hanging is a transport that does not answer, or whose answers do not end.
type hanging struct{ begins bool }

// RoundTrip implements http.RoundTripper.
func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.begins {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{r.Context()})}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// endless is a body without content that ends with its request.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

// TestRequestsEnd holds that a request without a complete answer ends, and that a watch goes on
// until its own end.
func TestRequestsEnd(t *testing.T) {
	const life = 10 * time.Minute
	tests := []struct {
		name, query string
		begins      bool
		want        error
		after       time.Duration
	}{
		{name: "no answer", want: errNoAnswer, after: requestTimeout},
		{name: "an answer without an end", begins: true, want: errNoAnswer, after: requestTimeout},
		{name: "watch", query: "?watch=true", begins: true, want: context.DeadlineExceeded, after: life},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), life)
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.invalid/api/v1/pods"+test.query, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()

				response, err := withDeadline(hanging{test.begins}).RoundTrip(request)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					_ = response.Body.Close()
				}

				if took := time.Since(begin); !errors.Is(err, test.want) || took != test.after {
					t.Errorf("error %v after %v, want %v after %v", err, took, test.want, test.after)
				}
				if !utilnet.IsTimeout(err) {
					t.Errorf("%v is no timeout", err)
				}
			})
		})
	}
}
