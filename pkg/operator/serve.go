// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
)

// httpShutdownTimeout bounds the wait for requests in flight when a server stops.
const httpShutdownTimeout = 2 * time.Second

// server is one HTTP endpoint of the process, already bound to its address.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// listen binds address, so that a taken port is known at once; the answers begin with run. flag is where address comes
// from. It returns nothing when the address is "0".
func listen(ctx context.Context, name, flag, address string, handler http.Handler) (*server, error) {
	if address == addressOff {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", flag, address, err)
	}
	return &server{
		name:     name,
		listener: listener,
		http: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		},
	}, nil
}

// run answers requests until ctx ends, then lets those in flight finish.
func (s *server) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", s.name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		// A client that reads slowly must not hold up the exit.
		klog.FromContext(ctx).V(2).Info("Closing connections that are still busy", "server", s.name, "err", err)
		_ = s.http.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", s.name, err)
	}
	return nil
}

// metricsHandler answers /metrics from registry.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry: registry,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}))
	return mux
}

// pprofHandler answers /debug/pprof/ as net/http/pprof does, whose own registration is for everything that the process
// serves.
func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// probeHandler answers /healthz, which says that the process lives and asks nobody, and /readyz.
func probeHandler(ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if problems := ready.problems(); len(problems) > 0 {
			http.Error(w, strings.Join(problems, "\n"), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// readiness tells whether the process could work, or does: its caches are synced and it is not stopping. Leadership
// does not matter, so that a rollout can go on while the new replica waits for the lease. A kind that waits for its CRD
// does not matter either, as long as another kind runs. The zero value is not ready.
type readiness struct {
	mu sync.Mutex
	// stopping tells whether the process stops; nil while it starts.
	stopping func() bool
	// kinds is the number of kinds that run, and synced their informers.
	kinds  int
	synced []controller.NamedSync
}

// watch makes the process ready from the moment in which a kind runs and the caches of all that run are synced, until
// the end of stop.
func (r *readiness) watch(stop context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = func() bool { return stop.Err() != nil }
}

// add says that one more kind runs, with the informers that it needs.
func (r *readiness) add(synced []controller.NamedSync) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds++
	r.synced = append(r.synced, synced...)
}

// problems lists what keeps the process from being ready.
func (r *readiness) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping == nil:
		return []string{"starting"}
	case r.stopping():
		return []string{"stopping"}
	case r.kinds == 0:
		return []string{"all kinds wait for CRDs or permissions"}
	}
	var problems []string
	for _, s := range r.synced {
		if !s.HasSynced() {
			problems = append(problems, s.Name+": not synced")
		}
	}
	return problems
}
