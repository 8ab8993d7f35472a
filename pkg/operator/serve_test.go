// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/example/demoapp-controller/pkg/controller"
)

func TestProbes(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	synced := func(name string, ok bool) controller.NamedSync {
		return controller.NamedSync{Name: name, HasSynced: func() bool { return ok }}
	}
	tests := []struct {
		name  string
		watch func(*readiness)
		code  int
		body  string
	}{
		{name: "starting", code: 503, body: "starting\n"},
		{
			name: "syncing",
			watch: func(r *readiness) {
				r.add([]controller.NamedSync{synced("a", false), synced("b", true)})
				r.add([]controller.NamedSync{synced("c", false)})
				r.watch(t.Context())
			},
			code: 503, body: "a: not synced\nc: not synced\n",
		},
		{
			name:  "synced",
			watch: func(r *readiness) { r.add([]controller.NamedSync{synced("a", true)}); r.watch(t.Context()) },
			code:  200, body: "ok\n",
		},
		{
			name:  "all kinds wait",
			watch: func(r *readiness) { r.watch(t.Context()) },
			code:  503, body: "no kind runs: install a CRD and the permissions of its kind\n",
		},
		{
			name: "another kind starts later",
			watch: func(r *readiness) {
				r.add([]controller.NamedSync{synced("a", true)})
				r.watch(t.Context())
				r.add([]controller.NamedSync{synced("b", false)})
			},
			code: 503, body: "b: not synced\n",
		},
		{
			name: "check fails",
			watch: func(r *readiness) {
				r.add(nil, Check{"webhook", func() error { return errors.New("no certificate") }}, Check{"other", func() error { return nil }})
				r.watch(t.Context())
			},
			code: 503, body: "webhook: no certificate\n",
		},
		{
			name:  "stopping",
			watch: func(r *readiness) { r.add([]controller.NamedSync{synced("a", true)}); r.watch(stopped) },
			code:  503, body: "stopping\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ready := &readiness{}
			if test.watch != nil {
				test.watch(ready)
			}
			handler := probeHandler(ready)
			if code, body := get(t, handler, "/readyz"); code != test.code || body != test.body {
				t.Errorf("/readyz = %d %q, want %d %q", code, body, test.code, test.body)
			}
			if code, body := get(t, handler, "/healthz"); code != 200 || body != "ok\n" {
				t.Errorf("/healthz = %d %q, want 200 ok", code, body)
			}
		})
	}
}

func get(t *testing.T, handler http.Handler, path string) (code int, body string) {
	t.Helper()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return response.Code, response.Body.String()
}

func TestPprof(t *testing.T) {
	server := httptest.NewServer(pprofHandler())
	defer server.Close()
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusOK, "/debug/pprof/heap": http.StatusOK, "/debug/pprof/cmdline": http.StatusOK,
		"/debug/pprof/none": http.StatusNotFound, "/metrics": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestServerDisabled(t *testing.T) {
	s, err := listen(t.Context(), "metrics", "--metrics-bind-address", "0", http.NotFoundHandler())
	if s != nil || err != nil {
		t.Errorf("listen() = %v, %v, want nothing", s, err)
	}
}

func TestServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s, err := listen(ctx, "metrics", "--metrics-bind-address", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	address := s.listener.Addr().String()

	_, err = listen(ctx, "probes", "--health-probe-bind-address", address, http.NotFoundHandler())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "--health-probe-bind-address="+address+": ") {
		t.Errorf("listen() on a taken port = %v", err)
	}

	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	answered := make(chan string, 1)
	go func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	<-entered
	cancel()
	close(leave)
	if got := <-answered; got != "done" {
		t.Errorf("the in-flight request got %q, want done", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("run() = %v", err)
	}
}

func TestServerFails(t *testing.T) {
	s, err := listen(t.Context(), "metrics", "--metrics-bind-address", "127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.listener.Close()
	if err := s.run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "serving metrics: ") {
		t.Errorf("run() = %v", err)
	}
}

func TestGathersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active atomic.Int32
		leave := make(chan struct{})
		limited := limitGathers(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			active.Add(1)
			<-leave
			active.Add(-1)
			return nil, nil
		}))
		var running sync.WaitGroup
		for range 3 * maxGathers {
			running.Go(func() { _, _ = limited.Gather() })
		}
		synctest.Wait()
		during := active.Load()
		close(leave)
		running.Wait()

		if during != maxGathers || active.Load() != 0 {
			t.Errorf("%d gather at a time, and %d at the end", during, active.Load())
		}
	})
}
