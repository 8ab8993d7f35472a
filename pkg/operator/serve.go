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
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/serving"
)

// metricsServer is the name of the metrics endpoint.
const metricsServer = "metrics"

// metricsPath is the path of the metrics.
const metricsPath = "/metrics"

const (
	// idleTimeout bounds how long a connection is kept between two requests.
	idleTimeout = 15 * time.Second
	// maxMetricsConnections and maxMetricsConnectionsOfAddress bound the open connections to the
	// metrics.
	maxMetricsConnections          = 200
	maxMetricsConnectionsOfAddress = 20
	// maxGathers bounds how many requests collect metrics at a time, because each of them reads the
	// caches of all kinds. Further requests wait.
	maxGathers = 2
)

// httpShutdownTimeout bounds the wait for requests in flight when a server stops.
const httpShutdownTimeout = 2 * time.Second

// server is one HTTP endpoint of the process. It is bound to its address.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// listen binds address, so that a port conflict is reported at the start. run then serves requests.
// flag is the flag of the address. If the address is "0", listen returns nil.
func listen(ctx context.Context, name, flag, address string, handler http.Handler) (*server, error) {
	if address == addressOff {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", flag, address, err)
	}
	if name == metricsServer {
		listener = serving.Limit(listener, maxMetricsConnections, maxMetricsConnectionsOfAddress)
	}
	return &server{
		name:     name,
		listener: listener,
		http: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		},
	}, nil
}

// run serves requests until ctx ends. It then waits for the requests in flight.
func (s *server) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.serve() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", s.name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		// A slow client must not delay the exit.
		klog.FromContext(ctx).V(2).Info("Closing connections that are still busy", "server", s.name, "err", err)
		_ = s.http.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", s.name, err)
	}
	return nil
}

func (s *server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// metricsHandler serves /metrics from registry.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, scrapeHandler(registry, registry))
	return mux
}

// scrapeHandler serves the metrics of gatherer, and registers the metrics of the handler itself.
func scrapeHandler(gatherer prometheus.Gatherer, registry prometheus.Registerer) http.Handler {
	return promhttp.HandlerFor(limitGathers(gatherer), promhttp.HandlerOpts{
		Registry: registry,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	})
}

// limitGathers returns a gatherer that collects for at most maxGathers callers at a time. A place
// is free again before the answer is written, so that a slow client does not hold it.
func limitGathers(gatherer prometheus.Gatherer) prometheus.Gatherer {
	places := make(chan struct{}, maxGathers)
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		places <- struct{}{}
		defer func() { <-places }()
		return gatherer.Gather()
	})
}

// pprofHandler serves /debug/pprof/. net/http/pprof registers its handlers only with
// http.DefaultServeMux, which is not used here.
func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// probeHandler serves /healthz and /readyz. /healthz only checks that the process serves requests.
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

// readiness is the readiness of the process. A process is ready if at least one kind runs, the
// caches of the running kinds are synced, their checks pass, and the process is not stopping.
// Leadership is not required, so that a rolling update proceeds while the new replica waits for the
// lease. The zero value is not ready.
type readiness struct {
	mu sync.Mutex
	// stopping reports whether the process is stopping. It is nil while the process starts.
	stopping func() bool
	// kinds is the number of running kinds; synced are their informers and checks their further
	// conditions.
	kinds  int
	synced []controller.NamedSync
	checks []Check
	// lacking are the permissions for which the start waits.
	lacking []string
}

// setMissing sets the permissions for which the start waits.
func (r *readiness) setMissing(permissions []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacking = permissions
}

// watch ends the start of the process. From then on, the process is ready as described above, until
// stop ends.
func (r *readiness) watch(stop context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = func() bool { return stop.Err() != nil }
}

// add adds a running kind, the informers that it needs and its further conditions.
func (r *readiness) add(synced []controller.NamedSync, checks ...Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds++
	r.synced = append(r.synced, synced...)
	r.checks = append(r.checks, checks...)
}

// problems returns the reasons why the process is not ready.
func (r *readiness) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.lacking) > 0:
		var problems []string
		for _, permission := range r.lacking {
			problems = append(problems, "the role lacks: "+permission)
		}
		return problems
	case r.stopping == nil:
		return []string{"starting"}
	case r.stopping():
		return []string{"stopping"}
	case r.kinds == 0:
		return []string{"no kind runs: install a CRD and the permissions of its kind"}
	}
	var problems []string
	for _, s := range r.synced {
		if !s.HasSynced() {
			problems = append(problems, s.Name+": not synced")
		}
	}
	for _, check := range r.checks {
		if err := check.Ready(); err != nil {
			problems = append(problems, check.Name+": "+err.Error())
		}
	}
	return problems
}

// awaitSynced returns when the caches of the running kinds are synced, when the time is over, or when
// ctx ends.
func (r *readiness) awaitSynced(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var synced []cache.InformerSynced
	r.mu.Lock()
	for _, s := range r.synced {
		synced = append(synced, s.HasSynced)
	}
	r.mu.Unlock()
	cache.WaitForCacheSync(ctx.Done(), synced...)
}
