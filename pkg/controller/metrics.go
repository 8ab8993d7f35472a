// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var (
	// passBuckets are the bounds for a pass, in seconds: from a pass without a change to a
	// Helm operation with hooks. They are few, because each reason and result has a
	// histogram.
	passBuckets = []float64{0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300}
	// readyBuckets are the bounds for the time to Ready, in seconds.
	readyBuckets = []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}
)

// Values of the label "result": the outcomes of a pass.
const (
	resultSuccess  = "success"
	resultError    = "error"
	resultTerminal = "terminal"
	resultConflict = "conflict"
	resultPanic    = "panic"
)

// results are all outcomes.
var results = [...]string{resultSuccess, resultError, resultTerminal, resultConflict, resultPanic}

// Metrics measures all controllers of a process. The label "controller" has the
// name of a controller; on the metrics of queues, the label is "name". The
// workqueue_* metrics are the same as in Kubernetes' own controllers. A nil
// *Metrics measures nothing.
type Metrics struct {
	total       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	active      *prometheus.GaugeVec
	detected    *prometheus.CounterVec
	corrected   *prometheus.CounterVec
	repeated    *namespaceCounter
	timeToReady *prometheus.HistogramVec
	watchErrors *prometheus.CounterVec
	objects     *objectCollector

	depth          *prometheus.GaugeVec
	adds           *prometheus.CounterVec
	latency        *prometheus.HistogramVec
	workDuration   *prometheus.HistogramVec
	unfinished     *prometheus.GaugeVec
	longestRunning *prometheus.GaugeVec
	retriesTotal   *prometheus.CounterVec
	turnWaits      *prometheus.HistogramVec
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
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	// 1 ms to 65 s: from a pass without a change to a slow chart.
	work := prometheus.ExponentialBuckets(0.001, 2, 17)
	m := &Metrics{
		total: counter("controller_reconcile_total",
			"Passes over an object, by the reason that started the pass and its result.", "controller", "reason", "result"),
		duration: histogram("controller_reconcile_duration_seconds",
			"Duration of a pass over an object, by the reason that started the pass and its result.", passBuckets,
			"controller", "reason", "result"),
		active: gauge("controller_active_workers", "Workers that are making a pass.", "controller"),
		detected: counter("controller_drift_detected_total",
			"Objects that were found to differ from what the controller applied.", "controller"),
		corrected: counter("controller_drift_corrected_total",
			"Objects that the controller restored after other clients changed or deleted them.", "controller"),
		repeated: newNamespaceCounter(counter("controller_drift_repeated_total",
			fmt.Sprintf("Objects that the controller restored again within 15 minutes after it had restored them, by namespace, "+
				"for at most %d namespaces of a controller.", maxNamespaces), "controller", namespaceLabel)),
		timeToReady: histogram("controller_time_to_ready_seconds",
			"Time from the creation of an object to its first condition Ready=True.", readyBuckets, "controller"),
		watchErrors: counter("controller_watch_errors_total",
			"Failed lists and watches of informers, by what the informer watches.", "resource"),
		objects: newObjectCollector(),

		depth:          gauge("workqueue_depth", "Keys that wait for a worker.", "name"),
		adds:           counter("workqueue_adds_total", "Keys that were added.", "name"),
		latency:        histogram("workqueue_queue_duration_seconds", "How long a key waited for a worker.", work, "name"),
		workDuration:   histogram("workqueue_work_duration_seconds", "How long a worker held a key.", work, "name"),
		unfinished:     gauge("workqueue_unfinished_work_seconds", "Sum of the times that workers have held their keys.", "name"),
		longestRunning: gauge("workqueue_longest_running_processor_seconds", "Longest time that a worker has held its key.", "name"),
		retriesTotal:   counter("workqueue_retries_total", "Retries after failed passes.", "name"),
		turnWaits: histogram("controller_turn_wait_seconds",
			"How long a namespace waited for a worker: from its first waiting key, or from its last turn, to its next turn.", work, "name"),
	}
	reg.MustRegister(m.objects)
	return m
}

// reconcileMetrics are the metrics of one controller. The zero value measures
// nothing.
type reconcileMetrics struct {
	total    *prometheus.CounterVec
	duration prometheus.ObserverVec
	active   prometheus.Gauge
}

// reconciles returns the metrics of a controller. The counters begin at 0, so that a
// query of their increase misses no first failure. A histogram begins with the first
// pass of its reason and result, because each has many series.
func (m *Metrics) reconciles(controller string) reconcileMetrics {
	if m == nil {
		return reconcileMetrics{}
	}
	of := prometheus.Labels{"controller": controller}
	total := m.total.MustCurryWith(of)
	for _, reason := range reasonNames {
		for _, result := range results {
			total.WithLabelValues(reason, result)
		}
	}
	return reconcileMetrics{
		total:    total,
		duration: m.duration.MustCurryWith(of),
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

// end counts a pass. due are the reasons that started the pass.
func (m reconcileMetrics) end(due Reason, result string, took time.Duration) {
	if m.active != nil {
		m.active.Dec()
		m.total.WithLabelValues(due.label(), result).Inc()
		m.duration.WithLabelValues(due.label(), result).Observe(took.Seconds())
	}
}

// DriftCount counts the drift that one controller finds and corrects, in objects. The zero
// value counts nothing.
type DriftCount struct {
	controller          string
	detected, corrected prometheus.Counter
	repeated            *namespaceCounter
}

// Drift returns the counters of a controller. Those without namespaces begin at 0.
func (m *Metrics) Drift(controller string) DriftCount {
	if m == nil {
		return DriftCount{}
	}
	return DriftCount{controller, m.detected.WithLabelValues(controller), m.corrected.WithLabelValues(controller), m.repeated}
}

// Detected counts objects that have drifted. Count an object once until it is as
// desired again.
func (d DriftCount) Detected(objects int) { add(d.detected, objects) }

// restored counts an object that the controller restored. See [Corrections].
func (d DriftCount) restored() { add(d.corrected, 1) }

// repeat counts a restored object of a namespace that the controller had restored shortly before.
func (d DriftCount) repeat(namespace string, now time.Time) {
	if d.repeated != nil {
		d.repeated.inc(d.controller, namespace, now)
	}
}

func add(counter prometheus.Counter, n int) {
	if counter != nil {
		counter.Add(float64(n))
	}
}

// TimeToReady returns a function that records the time from the creation of an object
// of a controller to its first Ready=True.
func (m *Metrics) TimeToReady(controller string) func(time.Duration) {
	if m == nil {
		return func(time.Duration) {}
	}
	series := m.timeToReady.WithLabelValues(controller)
	return func(d time.Duration) { series.Observe(d.Seconds()) }
}

// WatchErrors returns the watch error handler of an informer. The handler counts failed lists and
// watches by resource, the name of the watched resource, and logs them as client-go does. Watches
// that end normally or that are too old do not count, and neither do watches of a resource whose
// CRD was deleted.
func (m *Metrics) WatchErrors(resource string) cache.WatchErrorHandlerWithContext {
	if m == nil {
		return cache.DefaultWatchErrorHandler
	}
	count := m.WatchFailures(resource)
	return func(ctx context.Context, reflector *cache.Reflector, err error) {
		count(err)
		if apierrors.IsNotFound(err) {
			klog.FromContext(ctx).V(1).Info("The API server does not serve what an informer watches", "resource", resource)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	}
}

// OptionalWatchErrors is like WatchErrors, for an informer that starts when an object needs it.
// Refusals do not count: the role may lack the permission on purpose, and the status of the
// object says so.
func (m *Metrics) OptionalWatchErrors(resource string) cache.WatchErrorHandlerWithContext {
	count := m.OptionalWatchFailures(resource)
	return func(ctx context.Context, reflector *cache.Reflector, err error) {
		count(err)
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	}
}

// OptionalWatchFailures is like OptionalWatchErrors, for an informer with a handler of its own.
func (m *Metrics) OptionalWatchFailures(resource string) func(error) {
	count := m.WatchFailures(resource)
	return func(err error) {
		if !apierrors.IsForbidden(err) {
			count(err)
		}
	}
}

// WatchFailures is like WatchErrors, for an informer with a handler of its own. The
// function counts an error of the informer, and logs nothing.
func (m *Metrics) WatchFailures(resource string) func(error) {
	if m == nil {
		return func(error) {}
	}
	series := m.watchErrors.WithLabelValues(resource)
	return func(err error) {
		if isWatchFailure(err) {
			series.Inc()
		}
	}
}

// isWatchFailure reports whether an error of a list or watch is a failure. The normal end of a
// watch is not a failure (see cache.DefaultWatchErrorHandler), and neither is a watch of a resource
// without a CRD.
func isWatchFailure(err error) bool {
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	return !expired && !apierrors.IsNotFound(err) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
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

// turnWait returns a function that records how long a namespace waited for its turn in the named
// queue.
func (m *Metrics) turnWait(name string) func(time.Duration) {
	if m == nil {
		return func(time.Duration) {}
	}
	series := m.turnWaits.WithLabelValues(name)
	return func(waited time.Duration) { series.Observe(waited.Seconds()) }
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
