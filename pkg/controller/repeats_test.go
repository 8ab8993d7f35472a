// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
		{"one object, again and again", []correction{{"a", 0}, {"a", time.Second}, {"a", repeatWindow}}, 2},
		{"one object, after a long time", []correction{{"a", 0}, {"a", repeatWindow + time.Second}}, 0},
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
				repeats.Corrected(drift, c.object, now)
			}

			exposed(t, reg, []string{"controller_drift"}, fmt.Sprintf(`
controller_drift_corrected_total{controller="apps"} %d
controller_drift_detected_total{controller="apps"} 0
controller_drift_repeated_total{controller="apps"} %d
`, len(test.corrections), test.repeated))
		})
	}
}

func TestDriftRepeatsForgetOldCorrections(t *testing.T) {
	var repeats DriftRepeats[int]
	now := time.Unix(0, 0)
	for object := range 1000 {
		repeats.Corrected(DriftCount{}, object, now)
	}

	repeats.Corrected(DriftCount{}, 1000, now.Add(2*repeatWindow))

	if got := len(repeats.last); got != 1 {
		t.Errorf("%d objects are remembered, want 1", got)
	}
}
