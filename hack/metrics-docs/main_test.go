// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/cmd/demoapp-controller/app"
)

func TestDescribe(t *testing.T) {
	histogram := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "b_seconds", Help: `By "x" | y.`}, []string{"z", "a"})
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "a", Help: "One.", ConstLabels: prometheus.Labels{"state": "ready"},
	}, func() float64 { return 1 })

	metrics, err := describe([]prometheus.Collector{histogram, gauge})
	if err != nil {
		t.Fatal(err)
	}
	want := []Metric{
		{Name: "a", Type: "gauge", Labels: []string{"state"}, Help: "One."},
		{Name: "b_seconds", Type: "histogram", Labels: []string{"a", "z"}, Help: `By "x" | y.`},
	}
	if diff := cmp.Diff(want, metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if text := table(metrics[1:]); text != "| metric | type | labels | meaning |\n|---|---|---|---|\n| `b_seconds` | histogram | `a`, `z` | By \"x\" \\| y. |\n" {
		t.Errorf("table is %q", text)
	}
}

// TestMetricsOfTheOperator holds that all metrics are found that rules and dashboards may use.
func TestMetricsOfTheOperator(t *testing.T) {
	registry := &recorder{}
	if err := app.RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}

	metrics, err := describe(registry.collectors)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		"controller_drift_corrected_total": "counter", "controller_drift_detected_total": "counter",
		"controller_drift_repeated_total": "counter", "controller_namespaces": "gauge", "controller_failing_namespaces": "gauge",
		"controller_held_resources": "gauge", "controller_oldest_deletion_timestamp_seconds": "gauge",
		"controller_reconcile_duration_seconds": "histogram", "controller_reconcile_total": "counter",
		"controller_resources": "gauge", "controller_time_to_ready_seconds": "histogram", "controller_watch_errors_total": "counter",
		"demoapp_controller_build_info": "gauge", "go_gc_gomemlimit_bytes": "gauge", "helm_operation_duration_seconds": "histogram",
		"process_resident_memory_bytes": "gauge", "rest_client_requests_total": "counter", "watches_file_valid": "gauge",
		"webapps_with_blocked_image": "gauge", "webhook_certificate_expiration_timestamp_seconds": "gauge",
	} {
		found := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
		if found < 0 || metrics[found].Type != kind || metrics[found].Help == "" {
			t.Errorf("%s is missing, or no %s", name, kind)
		}
	}
}

func TestReplaceTable(t *testing.T) {
	replaced, err := replaceTable([]byte("intro\n"+begin+"old\n"+end+"more\n"), "new\n")
	if want := "intro\n" + begin + "\nnew\n\n" + end + "more\n"; err != nil || string(replaced) != want {
		t.Errorf("the page is %q, %v", replaced, err)
	}
	if _, err := replaceTable([]byte("intro\n"), "new\n"); err == nil {
		t.Error("a page without a table is accepted")
	}
}
