// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// readHeaderTimeout bounds the time in which a client sends the headers of a request.
const readHeaderTimeout = 10 * time.Second

// Proxy is a way to the API server that a test can interrupt for one operator, while all other
// clients go on.
type Proxy struct {
	// server is the URL, and ca the certificate that clients trust.
	server string
	ca     []byte

	t           testing.TB
	address     string
	certificate tls.Certificate
	handler     http.Handler
	intercepted atomic.Pointer[Interceptor]
	// running is nil while the proxy is disconnected. ended is closed when running accepts no more
	// connections.
	running *http.Server
	ended   chan struct{}
}

// Interceptor answers a request in place of the API server, or passes it on to forward.
type Interceptor func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// NewProxy starts a proxy of the API server, which ends with the test.
func (c *Cluster) NewProxy(t testing.TB) *Proxy {
	t.Helper()
	target, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// Clients bring their tokens, so the proxy has no credentials of its own.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.config))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, address: "127.0.0.1:0"}
	p.handler = p.forward(target, transport)
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.certificate, err = tls.X509KeyPair(certificate, key); err != nil {
		t.Fatal(err)
	}
	p.Connect(t.Context())
	p.server, p.ca = "https://"+p.address, certificate
	t.Cleanup(p.Disconnect)
	return p
}

// forward returns a handler that sends requests to target, unless they are intercepted.
func (p *Proxy) forward(target *url.URL, transport http.RoundTripper) http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Events of watches are passed on at once.
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		// An interrupted request has no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A client stops to send the body when it gets an error, which may come before the end of the
		// body. ReverseProxy would wait for that end before it ends its answer.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if intercept := p.intercepted.Load(); intercept != nil {
			(*intercept)(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	})
}

// Connect accepts connections, after Disconnect at the same address as before.
func (p *Proxy) Connect(ctx context.Context) {
	p.t.Helper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = listener.Addr().String()
	server, ended := &http.Server{
		Handler:           p.handler,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
	}, make(chan struct{})
	p.running, p.ended = server, ended
	go func() {
		defer close(ended)
		// The error always comes from Disconnect.
		_ = server.ServeTLS(listener, "", "")
	}()
}

// Disconnect closes all connections, and refuses new ones until Connect.
func (p *Proxy) Disconnect() {
	if p.running == nil {
		return
	}
	if err := p.running.Close(); err != nil {
		p.t.Error(err)
	}
	<-p.ended
	p.running = nil
}

// Refuse answers requests for which refuses is true with status 503.
func (p *Proxy) Refuse(refuses func(*http.Request) bool) {
	p.Intercept(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if refuses(r) {
			http.Error(w, "refused by the test", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	})
}

// Intercept hands all further requests to an interceptor. Without one, the proxy passes on all
// requests.
func (p *Proxy) Intercept(intercept Interceptor) {
	if intercept == nil {
		p.intercepted.Store(nil)
		return
	}
	p.intercepted.Store(&intercept)
}
