// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	owned := ownedKinds[0]
	client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)
	want := get(t, client, "web")
	patch(t, client, "web", owned.change)
	awaitSame(t, client, want, time.Now())

	lines := []string{
		`# TYPE workqueue_depth gauge`,
		`workqueue_adds_total{name="demoapp"}`,
		`# TYPE workqueue_queue_duration_seconds histogram`,
		`# TYPE workqueue_work_duration_seconds histogram`,
		`# TYPE rest_client_requests_total counter`,
		`# TYPE rest_client_request_duration_seconds histogram`,
		`controller_reconcile_total{controller="demoapp",reason="SpecChange",result="success"}`,
		`controller_reconcile_total{controller="demoapp",reason="Retry",result="panic"} 0`,
		`# TYPE controller_reconcile_duration_seconds histogram`,
		`# TYPE controller_active_workers gauge`,
		`helm_operations_total{action="install",result="success"}`,
		`helm_operations_total{action="repair",result="success"}`,
		`# TYPE helm_operation_duration_seconds histogram`,
		`helm_operation_duration_seconds_bucket{action="install",result="success",le="60"}`,
		`controller_drift_detected_total{controller="demoapp"}`,
		`controller_drift_corrected_total{controller="demoapp"}`,
		`controller_namespaces{controller="demoapp"}`,
		`controller_failing_namespaces{controller="demoapp"}`,
		`controller_resources{controller="demoapp",state="ready"}`,
		`controller_resources{controller="demoapp",state="stalled"}`,
		`controller_resources{controller="demoappcluster",state="deleting"} 0`,
		`controller_held_resources{controller="demoapp",gate="window"}`,
		`controller_time_to_ready_seconds_count{controller="demoapp"}`,
		`controller_watch_errors_total{resource="DemoApps"}`,
		`leader_election_master_status{name="demoapp-controller"} 1`,
		`controller_kind_waiting{kind="demoapp"} 0`,
		`controller_kind_waiting{kind="demoappcluster"} 0`,
		`# TYPE demoapp_controller_build_info gauge`,
		`# TYPE go_goroutines gauge`,
		`# TYPE process_resident_memory_bytes gauge`,
	}
	// The counter is incremented shortly after the status is written.
	cluster.Eventually(t.Context(), t, "all metrics", func(ctx context.Context) (bool, error) {
		text, err := operator.Metrics(ctx)
		if err != nil {
			return false, err
		}
		for _, line := range lines {
			if !strings.Contains(text, line) {
				return false, fmt.Errorf("no %s in:\n%s", line, text)
			}
		}
		// The install asked a client that answers itself whether the objects exist.
		if strings.Contains(text, "absent.invalid") {
			t.Errorf("requests that did not leave the process are counted:\n%s", text)
		}
		return true, nil
	})
}

// TestMetricsAreDocumented holds that the generated reference has all metrics of a running
// operator.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../artifacts/monitoring/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var metrics []struct{ Name, Type string }
	if err := json.Unmarshal(data, &metrics); err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range metrics {
		documented[m.Name] = m.Type
	}

	text, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	found := 0
	for line := range strings.Lines(text) {
		family, ok := strings.CutPrefix(line, "# TYPE ")
		if !ok {
			continue
		}
		found++
		name, kind, _ := strings.Cut(strings.TrimSpace(family), " ")
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // They follow the version of Go and the system.
		}
		if documented[name] != kind {
			t.Errorf("artifacts/monitoring/metrics.json has %s as %q, the operator as %q: run make generate", name, documented[name], kind)
		}
	}
	if found == 0 {
		t.Errorf("there are no metrics in:\n%s", text)
	}
}

// metric returns the value of a series of the operator.
func metric(ctx context.Context, t *testing.T, series string) float64 {
	t.Helper()
	value, err := operator.Metric(ctx, series)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// maxSeries bounds the series of a replica with all kinds, except the series of rest_client_*,
// which follow the methods and status codes in use. Each kind has at most 35 counters of passes,
// and as many histograms of 15 series.
const maxSeries = 6000

// TestLabelsAreBounded holds that no label has a value from a custom resource. Names and namespaces
// of all tests are such values.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("label-canary")
	ns.Create(app)
	ns.AwaitReady(app.Name)
	bounded := map[string][]string{
		"reason": {"SpecChange", "Drift", "DependencyReady", "HealthChange", "PeriodicResync", "Retry", "Deleted"},
		"state":  {"ready", "reconciling", "stalled", "deleting", "queued", "active", "failed"},
		"gate":   {"suspend", "window", "rollout", "takeover", "license", "dependency", "validation", "key", "values", "image", "change"},
		"result": {"success", "error", "terminal", "held", "conflict", "panic"},
		"action": {"install", "upgrade", "rollback", "reapply", "repair", "uninstall", "letgo", "mark", "explain", "look"},
	}

	text, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	series := 0
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		series++
		// The metrics of namespaces with a problem have at most 50 of them.
		if strings.Contains(line, app.Name) || strings.Contains(line, ns.Name) && !strings.Contains(line, "resource_namespace=") {
			t.Errorf("a series has a value of an object: %s", line)
		}
		for _, label := range labelOf.FindAllStringSubmatch(line, -1) {
			if values, ok := bounded[label[1]]; ok && !slices.Contains(values, label[2]) {
				t.Errorf("label %s has the value %q: %s", label[1], label[2], line)
			}
		}
	}
	t.Logf("%d series, %d bytes", series, len(text))
	if series > maxSeries {
		t.Errorf("%d series, at most %d are expected", series, maxSeries)
	}
}

// labelOf finds the labels of a series.
var labelOf = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
