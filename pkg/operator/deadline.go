// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// requestTimeout bounds a request, from its first byte to the last one of its answer. The default
// of API servers is a minute, after which they answer with an error. An answer that never ends, on
// a connection that works, would otherwise keep a worker and its object for good.
const requestTimeout = 90 * time.Second

// errNoAnswer is the error of a request that takes longer. [utilnet.IsTimeout] reports it.
var errNoAnswer = fmt.Errorf("no complete answer within %v: %w", requestTimeout, os.ErrDeadlineExceeded)

// deadlineTransport bounds all requests but watches, which API servers end after some minutes.
type deadlineTransport struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = deadlineTransport{}

// withDeadline returns a transport whose requests have a deadline.
func withDeadline(next http.RoundTripper) http.RoundTripper { return deadlineTransport{next} }

// WrappedRoundTripper implements [utilnet.RoundTripperWrapper].
func (b deadlineTransport) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements [http.RoundTripper].
func (b deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return b.next.RoundTrip(r)
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), requestTimeout, errNoAnswer)
	response, err := b.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = answerError(ctx, err)
		cancel()
		return nil, err
	}
	response.Body = &deadlineBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel}
	return response, nil
}

// deadlineBody is the body of an answer that has a deadline.
type deadlineBody struct {
	io.ReadCloser

	ctx    context.Context
	cancel context.CancelFunc
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, answerError(b.ctx, err)
}

func (b *deadlineBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// answerError returns the cause if the deadline of a request has caused err.
func answerError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}
