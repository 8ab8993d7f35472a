// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// files are the page.
//
//go:embed static
var files embed.FS

const (
	// maxStreams is the number of streams at the same time. A browser opens one for each visible tab.
	maxStreams = 32
	// maxReads is the number of objects that are read at the same time.
	maxReads = 4
	// stopWithin bounds the end of requests when the server stops.
	stopWithin = 3 * time.Second
)

// Options are the options of a server.
type Options struct {
	Cluster *inspect.Cluster
	// Namespace is the namespace that the page shows; empty for all.
	Namespace string
	// Write allows the actions of the page. Without it, the page writes nothing.
	Write bool
	// Context names the cluster on the page.
	Context string
	// Kinds are the functions of kinds, and Version is the version of the operator that they belong
	// to; see package plugin.
	Kinds   map[schema.GroupKind]inspect.KindFunctions
	Version string
	// Getter is for the template function lookup of charts.
	Getter genericclioptions.RESTClientGetter
	Now    func() time.Time
}

// Server serves the page.
type Server struct {
	Options

	token   string
	watch   *inspect.Watch
	streams chan struct{}
	reads   chan struct{}
}

// New returns a server with a new token.
func New(options Options) *Server {
	return &Server{
		Options: options, token: rand.Text(), watch: inspect.NewWatch(options.Cluster, options.Namespace),
		streams: make(chan struct{}, maxStreams), reads: make(chan struct{}, maxReads),
	}
}

// URL returns the URL of the page at an address, with the token.
func (s *Server) URL(address net.Addr) string {
	return "http://" + address.String() + "/#token=" + s.token
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler {
	page, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // The folder is part of the program.
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	for path, handle := range map[string]http.HandlerFunc{
		"GET /api/apps": s.streamApps, "GET /api/app": s.streamApp, "GET /api/drift": s.drift, "GET /api/revisions": s.revisions,
	} {
		mux.Handle(path, s.authorized(handle))
	}
	if s.Write {
		mux.Handle("POST /api/action", s.authorized(s.act))
	}
	return guarded(mux)
}

// Run serves the page until the context ends.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		// Streams end with the server.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var running sync.WaitGroup
	defer running.Wait()
	watchCtx, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	running.Go(func() { s.watch.Run(watchCtx) })
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if server.Shutdown(end) != nil {
			server.Close()
		}
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// cluster returns the cluster for one request. It reads the report of the operator again.
func (s *Server) cluster() *inspect.Cluster {
	return inspect.New(s.Cluster.Clients, s.Cluster.Operator)
}
