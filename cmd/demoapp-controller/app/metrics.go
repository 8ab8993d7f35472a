// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

// processMetrics are the metrics of the process: its registry, and what this package counts itself.
type processMetrics struct {
	registry    *prometheus.Registry
	controllers *controller.Metrics
	leader      *prometheus.GaugeVec
	operations  *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	drifts      *prometheus.CounterVec
}

// newMetrics returns a registry of our own with the metrics of the Go runtime, the process, the build, the controllers
// and leadership. The default registry stays unused: libraries register there what nobody asked for.
func newMetrics() *processMetrics {
	m := &processMetrics{
		registry: prometheus.NewRegistry(),
		leader: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_election_master_status",
			Help: "1 while this process leads, 0 while it stands by, by the name of the lease.",
		}, []string{"name"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "helm_operations_total",
			Help: "Operations on Helm releases, by action and result (success, error or terminal).",
		}, []string{"action", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "helm_operation_duration_seconds",
			Help:    "Time that operations on Helm releases took, by action.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"action"}),
		drifts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "helm_drifted_objects_total",
			Help: "Objects of Helm releases that somebody else changed, by the kind of drift (changed, missing, replaced or foreign) " +
				"and what was done about it (repair, or explain where it is only reported).",
		}, []string{"drift", "action"}),
	}
	m.registry.MustRegister(
		m.operations, m.durations, m.drifts,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		m.leader,
	)
	m.controllers = controller.NewMetrics(m.registry)
	return m
}

// observeRollouts shows from now on how many DemoApps wait for a newer chart, are on their way to it and have failed
// with it.
func (m *processMetrics) observeRollouts(counts func() rollout.Counts) {
	for state, count := range map[string]func(rollout.Counts) int{
		"queued": func(c rollout.Counts) int { return c.Queued },
		"active": func(c rollout.Counts) int { return c.Active },
		"failed": func(c rollout.Counts) int { return c.Failed },
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "demoapp_chart_rollouts",
			Help:        "DemoApps that wait for a newer chart, are on their way to it, or have failed with it, by state (queued, active or failed).",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count(counts())) }))
	}
}

// leading returns a function that records whether this process leads; it starts out as a standby.
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

// observeOperation counts an operation of the Helm engine. Releases are not told apart: there may be thousands.
func (m *processMetrics) observeOperation(operation helm.Operation) {
	result := "success"
	switch {
	case helm.IsTerminal(operation.Err):
		result = "terminal"
	case operation.Err != nil:
		result = "error"
	}
	action := strings.ToLower(operation.Action)
	m.operations.WithLabelValues(action, result).Inc()
	m.durations.WithLabelValues(action).Observe(operation.Duration.Seconds())
	for _, drift := range operation.Drifts {
		m.drifts.WithLabelValues(strings.ToLower(string(drift.Kind)), action).Inc()
	}
}

// clientMetrics counts the requests of client-go. There is no metric for client-side throttling, since there is none.
type clientMetrics struct {
	requests *prometheus.CounterVec
	retries  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// observeClients counts from now on the requests of all clients of client-go, Helm's included.
//
// It assigns client-go's hooks directly: Register works only once, and a package that Helm links (controller-runtime)
// has used that up in its init, for a registry that nobody reads.
func (m *processMetrics) observeClients() {
	c := &clientMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Requests to the API server, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_request_retries_total",
			Help: "Requests that client-go sent again, by status code, method and host.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Time from a request to the API server to its answer, by method and host.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"verb", "host"}),
	}
	m.registry.MustRegister(c.requests, c.retries, c.duration)
	clientmetrics.RequestResult = c
	clientmetrics.RequestRetry = c
	clientmetrics.RequestLatency = c
}

// Increment implements metrics.ResultMetric of client-go.
func (c *clientMetrics) Increment(_ context.Context, code, method, host string) {
	c.requests.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry implements metrics.RetryMetric of client-go.
func (c *clientMetrics) IncrementRetry(_ context.Context, code, method, host string) {
	c.retries.WithLabelValues(code, method, host).Inc()
}

// Observe implements metrics.LatencyMetric of client-go.
func (c *clientMetrics) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	c.duration.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}
