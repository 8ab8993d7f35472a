// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/pkg/helm"
)

// engineMetrics measure the Helm engine.
type engineMetrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	drifts     *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *engineMetrics {
	m := &engineMetrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "helm_operations_total",
			Help: "Operations on Helm releases, by action and result (success, error or terminal).",
		}, []string{"action", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "helm_operation_duration_seconds",
			Help:    "Duration of operations on Helm releases, by action.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"action"}),
		drifts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "helm_drifted_objects_total",
			Help: "Drifted objects of Helm releases, by drift (changed, missing, replaced or foreign) and action (repair if " +
				"the drift was corrected, explain if it was only reported).",
		}, []string{"drift", "action"}),
	}
	registry.MustRegister(m.operations, m.durations, m.drifts)
	return m
}

// observe measures an operation of the Helm engine. There is no label for the release, because there may be thousands.
func (m *engineMetrics) observe(operation helm.Operation) {
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
