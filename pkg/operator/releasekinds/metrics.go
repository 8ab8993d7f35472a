// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Values of the label "result".
const (
	resultSuccess  = "success"
	resultError    = "error"
	resultTerminal = "terminal"
	resultHeld     = "held"
)

// engineMetrics measure the Helm engine.
type engineMetrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

// newMetrics registers the metrics of the engine. The counters begin at 0, so that a query of their
// increase misses no first failure.
func newMetrics(registry prometheus.Registerer) *engineMetrics {
	m := &engineMetrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "helm_operations_total",
			Help: "Operations on Helm releases, by action and result (success, error, terminal or held).",
		}, []string{"action", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "helm_operation_duration_seconds",
			Help:    "Duration of operations on Helm releases, by action and result (success, error, terminal or held).",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"action", "result"}),
	}
	for _, action := range helm.Operations() {
		for _, result := range []string{resultSuccess, resultError, resultTerminal, resultHeld} {
			m.operations.WithLabelValues(strings.ToLower(action), result)
		}
	}
	registry.MustRegister(m.operations, m.durations)
	return m
}

// unselectedGauge registers the metric of custom resources that are not selected. Several managers of a
// process share the metric.
func unselectedGauge(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "watches_unselected_resources",
		Help: "Custom resources that the selector of their kind leaves out although they have the finalizer of a release, by kind.",
	}, []string{"kind"})
	err := registry.Register(gauge)
	if registered := (prometheus.AlreadyRegisteredError{}); errors.As(err, &registered) {
		if shared, ok := registered.ExistingCollector.(*prometheus.GaugeVec); ok {
			return shared, nil
		}
	}
	return gauge, err
}

// observe measures an operation of the Helm engine. There is no label for the release, because
// there may be thousands.
func (m *engineMetrics) observe(operation helm.Operation) {
	result := resultSuccess
	var consent *helm.ConsentError
	switch {
	case errors.As(operation.Err, &consent):
		result = resultHeld
	case helm.IsTerminal(operation.Err):
		result = resultTerminal
	case operation.Err != nil:
		result = resultError
	}
	action := strings.ToLower(operation.Action)
	m.operations.WithLabelValues(action, result).Inc()
	m.durations.WithLabelValues(action, result).Observe(operation.Duration.Seconds())
}
