// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// The test kinds. The children of a DemoAppCluster are DemoApps.
var (
	apps     = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	clusters = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoappclusters"}
)

func twoKinds() []Kind {
	return []Kind{
		{Name: "demoapp", Resources: []schema.GroupVersionResource{apps}},
		{Name: "demoappcluster", Resources: []schema.GroupVersionResource{clusters, apps}},
	}
}

func newTestQueue(ask watchable, namespaces ...string) (*kindQueue, *processMetrics) {
	metrics := newMetrics()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return newKindQueue(twoKinds(), namespaces, ask, newDefinitions(newCRDs()), "h", metrics.waiting), metrics
}

func names(kinds []Kind) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, kind.Name)
	}
	return strings.Join(all, ",")
}

// logged returns a context with a logger, and a function that returns the logged values of a key.
func logged(t *testing.T) (ctx context.Context, values func(key string) []string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	logs, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("the logger does not buffer")
	}
	return klog.NewContext(t.Context(), logger), func(key string) []string {
		var found []string
		for _, entry := range logs.GetBuffer().Data() {
			if at := slices.Index(entry.ParameterKVList, any(key)); at >= 0 {
				found = append(found, fmt.Sprint(entry.ParameterKVList[at+1]))
			}
		}
		return found
	}
}

// apiServer answers lists and watches of the resources. With refuseWatches, watches are forbidden.
func apiServer(refuseWatches bool, resources ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		watch := r.URL.Query().Has("watch")
		switch {
		case !slices.Contains(resources, resource):
			http.NotFound(w, r)
		case watch && refuseWatches:
			w.WriteHeader(http.StatusForbidden)
		case watch:
			if r.URL.Query().Get("resourceVersion") != "7" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case r.URL.Query().Get("limit") != "1":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
				TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
				ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			})
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		name      string
		handler   http.HandlerFunc
		tls       bool
		startable string
		want      string
	}{
		{name: "served", handler: apiServer(false, "demoapps", "demoappclusters"), startable: "demoapp,demoappcluster"},
		{name: "no CRD", handler: apiServer(false)},
		{name: "one CRD", handler: apiServer(false, "demoapps"), startable: "demoapp"},
		{name: "CRD of the child is missing", handler: apiServer(false, "demoappclusters")},
		{name: "forbidden", handler: status(http.StatusForbidden)},
		{name: "watches are forbidden", handler: apiServer(true, "demoapps", "demoappclusters")},
		{name: "broken conversion webhook", handler: status(http.StatusInternalServerError)},
		{name: "bad credentials", handler: status(http.StatusUnauthorized), want: "the API server at HOST rejects the credentials: "},
		{
			name: "unknown CA", handler: apiServer(false, "demoapps", "demoappclusters"), tls: true,
			want: "asking the API server at HOST for demoapps.demo.example.com: ",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := httptest.NewUnstartedServer(test.handler)
			if test.tls {
				// Discard the log line about the rejected handshake.
				api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
				api.StartTLS()
			} else {
				api.Start()
			}
			t.Cleanup(api.Close)
			clients, err := NewClients(&rest.Config{Host: api.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			queue := newKindQueue(twoKinds(), []string{"a", "b"}, askToWatch(clients.Metadata),
				newDefinitions(clients.Dynamic), api.URL, newMetrics().waiting)

			startable, err := queue.preflight(t.Context())

			want := strings.ReplaceAll(test.want, "HOST", api.URL)
			switch {
			case want == "" && err != nil:
				t.Errorf("preflight() = %v", err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
				t.Errorf("preflight() = %v, want %s", err, want)
			}
			if got := names(startable); got != test.startable {
				t.Errorf("startable = %q, want %q", got, test.startable)
			}
		})
	}
}

// flaky answers with err until it recovers.
type flaky struct {
	err     error
	hangs   bool
	recover time.Time
}

func (f *flaky) ask(ctx context.Context, _ schema.GroupVersionResource, _ string) error {
	if time.Now().After(f.recover) {
		return nil
	}
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func TestPreflightUnreachable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name    string
		api     flaky
		recover time.Duration
		want    string
		atMost  time.Duration
	}{
		{name: "connection refused", api: flaky{err: refused}, recover: time.Hour, want: "the API server at h does not answer (tried for 10s): dial tcp: connection refused", atMost: preflightTimeout},
		{name: "packets dropped", api: flaky{hangs: true}, recover: time.Hour, want: "the API server at h does not answer (tried for 10s): context deadline exceeded", atMost: preflightTimeout},
		{name: "API server starts", api: flaky{err: refused}, recover: 3 * time.Second, atMost: 4 * time.Second},
		{name: "permanent error", api: flaky{err: errors.New("x509: unknown authority")}, recover: time.Hour, want: "asking the API server at h"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				test.api.recover = start.Add(test.recover)
				queue, _ := newTestQueue(test.api.ask)

				_, err := queue.preflight(t.Context())

				switch {
				case test.want == "" && err != nil:
					t.Errorf("preflight() = %v", err)
				case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
					t.Errorf("preflight() = %v, want %s", err, test.want)
				}
				if took := time.Since(start); took > test.atMost {
					t.Errorf("took %v, want at most %v", took, test.atMost)
				}
			})
		})
	}
}

func TestPreflightInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		api := &flaky{hangs: true, recover: start.Add(time.Hour)}
		queue, _ := newTestQueue(api.ask)
		if _, err := queue.preflight(ctx); err == nil {
			t.Error("preflight() succeeded")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

// growing is an API server that serves and allows more resources as time passes. It counts the checks of each resource.
type growing struct {
	start time.Time
	// served and allowed are the times from which each resource is served and may be watched.
	served, allowed map[string]time.Duration
	// removed is when the demoapps are, after which they are absent. Until then they fail with failure.
	removed time.Duration
	failure error
	asked   map[string]int
}

func (g *growing) ask(_ context.Context, resource schema.GroupVersionResource, _ string) error {
	g.asked[resource.Resource]++
	passed := time.Since(g.start)
	switch {
	case passed < g.allowed[resource.Resource]:
		return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("RBAC"))
	case passed < g.removed && resource == apps:
		return g.failure
	case passed < g.served[resource.Resource]:
		return apierrors.NewNotFound(resource.GroupResource(), "")
	}
	return nil
}

// applyCRDs applies each missing CRD when its resource is served, and earlier by lead.
func (g *growing) applyCRDs(ctx context.Context, t *testing.T, client dynamic.Interface, lead time.Duration) {
	t.Helper()
	for _, resource := range []schema.GroupVersionResource{apps, clusters} {
		served := g.served[resource.Resource]
		if served == 0 {
			continue
		}
		go func() {
			select {
			case <-time.After(served - lead):
				applyCRD(ctx, t, client, resource)
			case <-ctx.Done():
			}
		}()
	}
}

func TestKindsWait(t *testing.T) {
	const (
		never = 1000 * time.Hour
		both  = "demoapps.demo.example.com/v1alpha1 is not served, install its CRD"
		other = "demoappclusters.demo.example.com/v1alpha1 is not served, install its CRD"
	)
	tests := []struct {
		name            string
		served, allowed map[string]time.Duration
		// lead is how much earlier than its resource a CRD is established.
		lead time.Duration
		// failure is the first answer for the demoapps, before they are absent.
		failure error
		// blind is whether CRDs may not be watched.
		blind bool
		// from is when each kind can start, and late how much later that may be noticed.
		from map[string]time.Duration
		late time.Duration
		// said are the logged obstacles, in order.
		said   []string
		atMost int
	}{
		{name: "served", from: map[string]time.Duration{"demoapp": 0, "demoappcluster": 0}, atMost: 1},
		{
			name:   "both served at the same time",
			served: map[string]time.Duration{"demoapps": 2 * time.Second, "demoappclusters": 2 * time.Second},
			from:   map[string]time.Duration{"demoapp": 2 * time.Second, "demoappcluster": 2 * time.Second},
			late:   0, said: []string{other + "; " + both}, atMost: 3,
		},
		{
			name:   "one after the other",
			served: map[string]time.Duration{"demoapps": time.Minute, "demoappclusters": time.Hour},
			from:   map[string]time.Duration{"demoapp": time.Minute, "demoappcluster": time.Hour},
			late:   0, said: []string{other + "; " + both}, atMost: 5,
		},
		{
			name:   "CRD of the child last",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Minute},
			from:   map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:   0, said: []string{other + "; " + both}, atMost: 5,
		},
		{
			name:   "served later than the CRD is established",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour}, lead: 5 * time.Second,
			from: map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late: 5 * time.Second, said: []string{other + "; " + both}, atMost: 12,
		},
		{
			name:   "CRDs cannot be watched",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour}, blind: true,
			from: map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late: 5 * time.Minute, said: []string{other + "; " + both}, atMost: 35,
		},
		{
			name:    "fails once while the CRD is removed",
			served:  map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			failure: apierrors.NewInternalError(errors.New("the storage is being removed")),
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    0, said: []string{other + "; " + both}, atMost: 4,
		},
		{
			name:    "forbidden once while the permission is applied",
			served:  map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			failure: apierrors.NewForbidden(apps.GroupResource(), "", errors.New("RBAC")),
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    0, said: []string{other + "; " + both}, atMost: 4,
		},
		{
			name:   "one kind runs while the other waits",
			served: map[string]time.Duration{"demoappclusters": never},
			from:   map[string]time.Duration{"demoapp": 0, "demoappcluster": never},
			said:   []string{other}, atMost: 2,
		},
		{
			name:    "permission after the CRD",
			served:  map[string]time.Duration{"demoapps": 0, "demoappclusters": 0},
			allowed: map[string]time.Duration{"demoapps": 0, "demoappclusters": time.Minute},
			from:    map[string]time.Duration{"demoapp": 0, "demoappcluster": time.Minute},
			late:    45 * time.Second,
			said:    []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch"}, atMost: 12,
		},
		{
			name:    "permission comes much later than the CRD",
			allowed: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    5 * time.Minute,
			said: []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch; " +
				"demoapps.demo.example.com/v1alpha1 is forbidden, grant list and watch"},
			atMost: 35,
		},
		{
			name:    "permission comes earlier than the CRD",
			served:  map[string]time.Duration{"demoappclusters": 2 * time.Minute},
			allowed: map[string]time.Duration{"demoappclusters": time.Minute},
			from:    map[string]time.Duration{"demoapp": 0, "demoappcluster": 2 * time.Minute},
			late:    0,
			said:    []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch", other}, atMost: 15,
		},
		{
			name:   "stopped while waiting",
			served: map[string]time.Duration{"demoapps": never, "demoappclusters": never},
			from:   map[string]time.Duration{"demoapp": never, "demoappcluster": never},
			said:   []string{other + "; " + both}, atMost: 2,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				ctx, cancel := context.WithTimeout(logs, time.Hour+6*time.Minute)
				defer cancel()
				api := &growing{
					start: time.Now(), served: test.served, allowed: test.allowed, failure: test.failure, asked: map[string]int{},
				}
				if test.failure != nil {
					api.removed = kindRetry / 2
				}
				queue, metrics := newTestQueue(api.ask)
				crds := newCRDs()
				queue.crds = newDefinitions(crds)
				if test.blind {
					refuseCRDs(crds)
				}
				api.applyCRDs(ctx, t, crds, test.lead)
				started := map[string]time.Duration{"demoapp": never, "demoappcluster": never}
				start := func(kind Kind) error {
					started[kind.Name] = time.Since(api.start)
					return nil
				}

				startable, err := queue.preflight(ctx)
				for _, kind := range startable {
					_ = start(kind)
				}
				err = errors.Join(err, queue.run(ctx, start))
				if err != nil {
					t.Errorf("error = %v", err)
				}
				_, body := get(t, metricsHandler(metrics.registry), "/metrics")
				for kind, from := range test.from {
					if got := started[kind]; got < from || got > from+test.late {
						t.Errorf("%s started after %v, want %v to %v", kind, got, from, from+test.late)
					}
					gauge := fmt.Sprintf("\ncontroller_kind_waiting{kind=%q} %d\n", kind, map[bool]int{true: 1}[from == never])
					if !strings.Contains(body, gauge) {
						t.Errorf("/metrics lacks %s", gauge)
					}
				}
				for resource, times := range api.asked {
					t.Logf("asked %d times for %s", times, resource)
					if times > test.atMost {
						t.Errorf("%d checks of %s, want at most %d", times, resource, test.atMost)
					}
				}
				if got := said("because"); !slices.Equal(got, test.said) {
					t.Errorf("logged %q, want %q", got, test.said)
				}
			})
		})
	}
}

// TestWaitingKindRetriesWithoutAPIServer checks a waiting kind while the API server does not answer. The process keeps
// running, with few requests and log lines. The kind starts when the API server answers again.
func TestWaitingKindRetriesWithoutAPIServer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	failures := map[string]error{
		"refuses connections": refused,
		"hangs":               context.DeadlineExceeded,
		"fails":               apierrors.NewInternalError(errors.New("conversion webhook")),
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				begin, asked := time.Now(), 0
				queue, _ := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error {
					asked++
					if time.Since(begin) < time.Hour {
						return failure
					}
					return nil
				})
				var started []Kind

				err := queue.run(logs, func(kind Kind) error {
					started = append(started, kind)
					return nil
				})

				if err != nil || names(started) != "demoapp,demoappcluster" {
					t.Errorf("error = %v, started %q", err, names(started))
				}
				if took := time.Since(begin); took > time.Hour+15*time.Second {
					t.Errorf("took %v", took)
				}
				if most := 2 * 370; asked > most {
					t.Errorf("%d checks, want at most %d", asked, most)
				}
				if lines := len(said("resource")) + len(said("because")); lines > 2 {
					t.Errorf("the log has %d lines", lines)
				}
			})
		})
	}
}

func TestKindStartError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no chart")
		queue, _ := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error { return nil })
		if err := queue.run(t.Context(), func(Kind) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("run() = %v, want %v", err, failure)
		}
	})
}

func TestKindWaitsForEachNamespace(t *testing.T) {
	queue, _ := newTestQueue(func(_ context.Context, resource schema.GroupVersionResource, namespace string) error {
		if resource == clusters && namespace == "b" {
			return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("RBAC"))
		}
		return nil
	}, "a", "b")

	startable, err := queue.preflight(t.Context())

	if err != nil || names(startable) != "demoapp" {
		t.Errorf("preflight() = %q, %v, want demoapp", names(startable), err)
	}
}
