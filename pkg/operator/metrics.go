// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// processMetrics are the registry of the process and the metrics of this package.
type processMetrics struct {
	registry *prometheus.Registry
	leader   *prometheus.GaugeVec
	shards   *prometheus.GaugeVec
	kinds    *kindMetrics
	clients  *clientMetrics
}

// kindMetrics measure the kinds that cannot run yet.
type kindMetrics struct {
	waiting *prometheus.GaugeVec
	missing *prometheus.GaugeVec

	mu sync.Mutex
	// lacking are the permissions that kinds lack, and shown the labels of the series about them.
	lacking map[string][]permission
	shown   map[[4]string]bool
}

func newKindMetrics() *kindMetrics {
	return &kindMetrics{
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_kind_waiting",
			Help: "1 while an installed kind waits for permissions or cannot be listed, or a kind of watches.yaml waits for its CRD; 0 otherwise, by kind.",
		}, []string{"kind"}),
		missing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_permission_missing",
			Help: fmt.Sprintf("1 for each permission that an installed kind lacks, by kind, namespace, resource and verb; at most %d.", maxDescribed),
		}, []string{"kind", "resource_namespace", "resource", "verb"}),
		lacking: map[string][]permission{},
	}
}

// setWaiting records whether a kind waits.
func (m *kindMetrics) setWaiting(kind string, waiting bool) {
	value := 0.0
	if waiting {
		value = 1
	}
	m.waiting.WithLabelValues(kind).Set(value)
}

// setMissing records the permissions that a kind lacks. It is safe for concurrent use.
func (m *kindMetrics) setMissing(kind string, missing []permission) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lacking[kind] = missing
	if len(missing) == 0 {
		delete(m.lacking, kind)
	}
	shown := map[[4]string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.lacking)) {
		for _, p := range m.lacking[name] {
			if len(shown) < maxDescribed {
				shown[[4]string{name, p.namespace, p.path(), p.verb}] = true
			}
		}
	}
	for labels := range m.shown {
		if !shown[labels] {
			m.missing.DeleteLabelValues(labels[:]...)
		}
	}
	for labels := range shown {
		m.missing.WithLabelValues(labels[:]...).Set(1)
	}
	m.shown = shown
}

// newMetrics returns a new registry with the metrics of the process. The default registry is not
// used, because libraries register their own metrics there.
func newMetrics() *processMetrics {
	registry := prometheus.NewRegistry()
	m := registerProcess(registry)
	m.registry = registry
	return m
}

// RegisterMetrics registers all metrics that a process with these kinds has. It connects to nothing
// and starts nothing. It is for documentation and tests; Run registers the metrics itself.
func RegisterMetrics(registry prometheus.Registerer, options Options, kinds ...Kind) error {
	metrics := registerProcess(registry)
	registry.MustRegister(options.buildInfo())
	scrapeHandler(prometheus.NewRegistry(), registry)
	clients, err := NewClients(&rest.Config{Host: "https://api.invalid"})
	if err != nil {
		return err
	}
	stream := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.Kube.EventsV1()})
	defer stream.Shutdown()
	environment := NewEnvironment(options.Name, clients, options.Namespaces, stream, registry)
	environment.kinds = metrics.kinds
	for _, kind := range withOptional(kinds) {
		if _, err := environment.Build(kind); err != nil {
			return fmt.Errorf("kind %s: %w", kind.Name, err)
		}
	}
	return nil
}

// registerProcess registers the metrics of the Go runtime, the process, the build, leadership,
// waiting kinds and requests.
func registerProcess(registry prometheus.Registerer) *processMetrics {
	m := &processMetrics{
		leader: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_election_master_status",
			Help: "1 while this process is the leader, 0 while it is a standby, by the name of the lease.",
		}, []string{"name"}),
		shards: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_shard_held",
			Help: "1 while this process works on a shard of the namespaces (--shards), otherwise 0, by shard.",
		}, []string{"shard"}),
		kinds: newKindMetrics(),
	}
	m.clients = newClientMetrics(registry)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		m.leader, m.shards, m.kinds.waiting, m.kinds.missing,
	)
	return m
}

// leading returns a function that records whether this process is the leader. At first, the process
// is a standby.
func (m *processMetrics) leading(lease string) func(bool) {
	gauge := m.leader.WithLabelValues(lease)
	return func(leads bool) {
		if leads {
			gauge.Set(1)
			return
		}
		gauge.Set(0)
	}
}

// clientMetrics measures the requests of client-go that leave the process. Client-side throttling
// is off, so it has no metric.
type clientMetrics struct {
	requests *prometheus.CounterVec
	retries  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newClientMetrics registers the metrics of requests.
func newClientMetrics(registry prometheus.Registerer) *clientMetrics {
	c := &clientMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Requests to the API server, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_request_retries_total",
			Help: "Retries of requests by client-go, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Latency of requests to the API server, by method and host.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"verb", "host"}),
	}
	registry.MustRegister(c.requests, c.retries, c.duration)
	return c
}

// observeClients measures the requests of all client-go clients from now on, also of Helm's
// clients.
//
// It assigns the metric hooks of client-go directly, because metrics.Register has an effect only
// once per process. controller-runtime, which Helm imports, calls it in its init for another
// registry.
func (m *processMetrics) observeClients() {
	c := m.clients
	clientmetrics.RequestResult = c
	clientmetrics.RequestRetry = c
	clientmetrics.RequestLatency = c
}

// Increment implements metrics.ResultMetric of client-go.
func (c *clientMetrics) Increment(_ context.Context, code, method, host string) {
	if neverSent(host) {
		return
	}
	c.requests.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry implements metrics.RetryMetric of client-go.
func (c *clientMetrics) IncrementRetry(_ context.Context, code, method, host string) {
	if neverSent(host) {
		return
	}
	c.retries.WithLabelValues(code, method, host).Inc()
}

// Observe implements metrics.LatencyMetric of client-go.
func (c *clientMetrics) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	if neverSent(u.Host) {
		return
	}
	c.duration.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// neverSent reports whether requests to a host stay in the process. The top-level domain "invalid"
// never resolves (RFC 6761, section 6.4). Only clients that answer their own requests have such a
// host, as the Helm clients of this project.
func neverSent(host string) bool { return strings.HasSuffix(host, ".invalid") }
