// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRepeatedDriftIsCountedByObject(t *testing.T) {
	type correction struct {
		object string
		after  time.Duration
	}
	tests := []struct {
		name        string
		corrections []correction
		repeated    int
	}{
		{"one object, once", []correction{{"a", 0}}, 0},
		{"two objects, once each", []correction{{"a", 0}, {"b", time.Second}}, 0},
		{"one object, again and again", []correction{{"a", 0}, {"a", time.Second}, {"a", repeatWindow - 1}}, 2},
		{"one object, after a long time", []correction{{"a", 0}, {"a", repeatWindow}}, 0},
		{"two objects in turn", []correction{{"a", 0}, {"b", 0}, {"a", time.Minute}, {"b", time.Minute}}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			drift := NewMetrics(reg).Drift("apps")
			var repeats DriftRepeats[string]
			now := time.Unix(0, 0)

			for _, c := range test.corrections {
				now = now.Add(c.after)
				repeats.Corrected(drift, "ns", c.object, now)
			}

			repeated := ""
			if test.repeated > 0 {
				repeated = fmt.Sprintf("controller_drift_repeated_total{controller=\"apps\",resource_namespace=\"ns\"} %d\n", test.repeated)
			}
			exposed(t, reg, []string{"controller_drift"}, fmt.Sprintf(`
controller_drift_corrected_total{controller="apps"} %d
controller_drift_detected_total{controller="apps"} 0
`, len(test.corrections))+repeated)
		})
	}
}

func TestDriftRepeatsForgetOldCorrections(t *testing.T) {
	var repeats DriftRepeats[int]
	now := time.Unix(0, 0)
	for object := range 1000 {
		repeats.Corrected(DriftCount{}, "ns", object, now)
	}

	repeats.Corrected(DriftCount{}, "ns", 1000, now.Add(2*repeatWindow))

	if got := repeats.recent.Len(); got != 1 {
		t.Errorf("%d objects are remembered, want 1", got)
	}
}

// TestNamespacesOfRepeatedDriftAreBounded: tenants choose how many namespaces have repeated drift.
func TestNamespacesOfRepeatedDriftAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	metrics := NewMetrics(reg)
	drift, now := metrics.Drift("apps"), time.Unix(0, 0)
	for i := range 1000 {
		drift.repeat(fmt.Sprintf("ns-%03d", i), now)
	}
	metrics.Drift("others").repeat("ns", now) // Each controller has namespaces of its own.
	if got := testutil.CollectAndCount(metrics.repeated.vec); got != maxNamespaces+1 {
		t.Errorf("%d series, want %d", got, maxNamespaces+1)
	}

	drift.repeat("ns-007", now.Add(time.Minute))
	drift.repeat("late", now.Add(repeatWindow+time.Second))

	exposed(t, reg, []string{"controller_drift_repeated_total"}, `
controller_drift_repeated_total{controller="apps",resource_namespace="late"} 1
controller_drift_repeated_total{controller="apps",resource_namespace="ns-007"} 2
controller_drift_repeated_total{controller="others",resource_namespace="ns"} 1
`)
}
