// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/client-go/util/workqueue"
)

// Values of the label "result": the outcomes of a pass.
const (
	resultSuccess  = "success"
	resultError    = "error"
	resultTerminal = "terminal"
	resultConflict = "conflict"
	resultPanic    = "panic"
)

// Metrics measures all controllers of a process. The label "controller" has the
// name of a controller; on the workqueue_* metrics, the label is "name". The
// workqueue_* metrics are the same as in Kubernetes' own controllers. A nil
// *Metrics measures nothing.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	active   *prometheus.GaugeVec

	depth          *prometheus.GaugeVec
	adds           *prometheus.CounterVec
	latency        *prometheus.HistogramVec
	workDuration   *prometheus.HistogramVec
	unfinished     *prometheus.GaugeVec
	longestRunning *prometheus.GaugeVec
	retriesTotal   *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg. Like MustRegister, it panics if reg
// already has a metric of the same name.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return auto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		// 1 ms to 65 s: from a pass without a change to a slow chart.
		buckets := prometheus.ExponentialBuckets(0.001, 2, 17)
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	}
	return &Metrics{
		total:    counter("controller_reconcile_total", "Passes over an object, by outcome.", "controller", "result"),
		duration: histogram("controller_reconcile_duration_seconds", "Duration of a pass over an object.", "controller"),
		active:   gauge("controller_active_workers", "Workers that are making a pass.", "controller"),

		depth:          gauge("workqueue_depth", "Keys that wait for a worker.", "name"),
		adds:           counter("workqueue_adds_total", "Keys that were added.", "name"),
		latency:        histogram("workqueue_queue_duration_seconds", "How long a key waited for a worker.", "name"),
		workDuration:   histogram("workqueue_work_duration_seconds", "How long a worker held a key.", "name"),
		unfinished:     gauge("workqueue_unfinished_work_seconds", "Sum of the times that workers have held their keys.", "name"),
		longestRunning: gauge("workqueue_longest_running_processor_seconds", "Longest time that a worker has held its key.", "name"),
		retriesTotal:   counter("workqueue_retries_total", "Retries after failed passes.", "name"),
	}
}

// reconcileMetrics are the metrics of one controller. The zero value measures
// nothing.
type reconcileMetrics struct {
	total    map[string]prometheus.Counter
	duration prometheus.Observer
	active   prometheus.Gauge
}

func (m *Metrics) reconciles(controller string) reconcileMetrics {
	if m == nil {
		return reconcileMetrics{}
	}
	total := map[string]prometheus.Counter{}
	for _, result := range []string{resultSuccess, resultError, resultTerminal, resultConflict, resultPanic} {
		total[result] = m.total.WithLabelValues(controller, result)
	}
	return reconcileMetrics{
		total:    total,
		duration: m.duration.WithLabelValues(controller),
		active:   m.active.WithLabelValues(controller),
	}
}

func (m reconcileMetrics) begin() {
	if m.active != nil {
		m.active.Inc()
	}
}

// wait and resume mark the begin and the end of the time in which a pass has no worker.
func (m reconcileMetrics) wait() {
	if m.active != nil {
		m.active.Dec()
	}
}

func (m reconcileMetrics) resume() { m.begin() }

func (m reconcileMetrics) end(result string, took time.Duration) {
	if m.active != nil {
		m.active.Dec()
		m.total[result].Inc()
		m.duration.Observe(took.Seconds())
	}
}

// workqueues returns a nil interface for nil metrics, because client-go compares
// the provider with nil.
func (m *Metrics) workqueues() workqueue.MetricsProvider {
	if m == nil {
		return nil
	}
	return workqueueMetrics{m}
}

// retries counts the retries of the named queue.
func (m *Metrics) retries(name string) workqueue.CounterMetric {
	if m == nil {
		return noCounter{}
	}
	return workqueueMetrics{m}.NewRetriesMetric(name)
}

type noCounter struct{}

func (noCounter) Inc() {}

// workqueueMetrics is the client-go metrics provider of Metrics.
type workqueueMetrics struct{ *Metrics }

func (m workqueueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

func (m workqueueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m workqueueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.latency.WithLabelValues(name)
}

func (m workqueueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.workDuration.WithLabelValues(name)
}

func (m workqueueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m workqueueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longestRunning.WithLabelValues(name)
}

func (m workqueueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retriesTotal.WithLabelValues(name)
}
