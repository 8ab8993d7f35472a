// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// errFenced is the error of a write after the time of the process.
var errFenced = errors.New("the lease has expired, so this process must not write any more")

// fence refuses writes when the lease of the process has expired. The contexts of passes end, too,
// but only when the timer of the lease fires, and a process that was stopped and continues would
// write until then. Workers that do not end with their contexts, in a program that goes on, write
// nothing either.
type fence struct {
	// end is the time from which writes are refused; nil for no end.
	end atomic.Pointer[time.Time]
}

// open allows writes until end.
func (f *fence) open(end time.Time) { f.end.Store(&end) }

// closed reports whether writes are refused.
func (f *fence) closed() bool {
	end := f.end.Load()
	return end != nil && !time.Now().Before(*end)
}

// fenced returns a config whose clients have the fence.
func (f *fence) fenced(server *rest.Config) *rest.Config {
	server = rest.CopyConfig(server)
	server.Wrap(f.wrap)
	return server
}

// wrap returns a transport with the fence.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper { return fencedTransport{f, next} }

var _ utilnet.RoundTripperWrapper = fencedTransport{}

type fencedTransport struct {
	*fence

	next http.RoundTripper
}

// WrappedRoundTripper implements [utilnet.RoundTripperWrapper]. Without it, client-go warns that it
// cannot cancel a request that has timed out.
func (f fencedTransport) WrappedRoundTripper() http.RoundTripper { return f.next }

// RoundTrip implements [http.RoundTripper].
func (f fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && f.closed() {
		if r.Body != nil {
			_ = r.Body.Close() // A transport closes the body, also after an error.
		}
		return nil, errFenced
	}
	return f.next.RoundTrip(r)
}
