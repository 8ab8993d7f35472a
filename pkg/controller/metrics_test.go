// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := NewMetrics(reg)
		r := newRig(t, Options{Metrics: m})
		answers := []error{nil, errTransient, errConflict, Terminal(errTransient), nil}
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(3 * time.Second)
			if len(answers) == 0 {
				panic("none left")
			}
			err := answers[0]
			answers = answers[1:]
			return Result{RequeueAfter: time.Hour}, err
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(2 * time.Second)
		expect(t,
			want{"active", m.active.WithLabelValues("test"), 1},
			want{"unfinished", m.unfinished.WithLabelValues("test"), 2},
			want{"longest running", m.longestRunning.WithLabelValues("test"), 2},
			want{"depth", m.depth.WithLabelValues("test"), 0},
		)
		advance(10 * time.Second)
		r.Enqueue(keyB, SpecChange) // fails, then conflicts, then fails with a terminal error
		advance(time.Minute)
		r.Enqueue(keyA, SpecChange) // succeeds
		advance(time.Minute)
		r.Enqueue(keyA, SpecChange) // panics
		advance(4 * time.Second)
		r.stop(nil)
		advance(4 * time.Second)
		r.finish()
		expect(t,
			want{"active", m.active.WithLabelValues("test"), 0},
			want{"conflict", m.total.WithLabelValues("test", "Retry", resultConflict), 1},
			want{"error", m.total.WithLabelValues("test", "SpecChange", resultError), 1},
			want{"panic", m.total.WithLabelValues("test", "SpecChange", resultPanic), 1},
			want{"panic of a retry", m.total.WithLabelValues("test", "Retry", resultPanic), 1},
			want{"success", m.total.WithLabelValues("test", "SpecChange", resultSuccess), 2},
			want{"terminal", m.total.WithLabelValues("test", "Retry", resultTerminal), 1},
			want{"no pass", m.total.WithLabelValues("test", "Drift", resultError), 0},
			want{"retries", m.retriesTotal.WithLabelValues("test"), 4},
		)
		for name, series := range map[string]int{
			"controller_reconcile_total":            len(reasonNames) * len(results),
			"controller_reconcile_duration_seconds": 6,
			"workqueue_queue_duration_seconds":      2,
			"controller_turn_wait_seconds":          2,
			"workqueue_work_duration_seconds":       2,
		} {
			if n := testutil.CollectAndCount(reg, name); n != series {
				t.Errorf("%d series of %s, want %d", n, name, series)
			}
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
	})
}

// want is the value of one series.
type want struct {
	name   string
	series prometheus.Collector
	value  float64
}

func expect(t *testing.T, wants ...want) {
	t.Helper()
	for _, w := range wants {
		if got := testutil.ToFloat64(w.series); got != w.value {
			t.Errorf("%s is %v, want %v", w.name, got, w.value)
		}
	}
}

func TestReasonLabel(t *testing.T) {
	tests := []struct {
		due  Reason
		want string
	}{
		{SpecChange, "SpecChange"},
		{Retry, "Retry"},
		{PeriodicResync | Drift, "Drift"},
		{Deleted | SpecChange, "SpecChange"},
		{Deleted, "Deleted"},
		{Deleted << 1, "Other"},
		{1 << 31, "Other"},
		{0, "Other"},
	}
	for _, test := range tests {
		if got := test.due.label(); got != test.want {
			t.Errorf("the label of %v is %s, want %s", test.due, got, test.want)
		}
	}
}

func TestDriftAndTimeToReady(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	drift, ready := m.Drift("apps"), m.TimeToReady("apps")
	m.Drift("quiet")

	drift.Detected(3)
	var repeats Corrections[string]
	repeats.Corrected(drift, "ns", "a", 0, time.Unix(0, 0))
	repeats.Corrected(drift, "ns", "b", 0, time.Unix(0, 0))
	ready(7 * time.Second)

	exposed(t, reg, []string{"controller_drift", "controller_time_to_ready_seconds_sum"}, `
controller_drift_corrected_total{controller="apps"} 2
controller_drift_corrected_total{controller="quiet"} 0
controller_drift_detected_total{controller="apps"} 3
controller_drift_detected_total{controller="quiet"} 0
controller_time_to_ready_seconds_sum{controller="apps"} 7
`)
}

func TestWatchErrors(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	handler, failed := m.WatchErrors("Apps"), m.WatchFailures("Secrets")
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{}, &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{})

	optional := m.OptionalWatchErrors("Ingresses")

	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "", errTransient)
	handler(t.Context(), reflector, refused)
	optional(t.Context(), reflector, refused) // The role may lack the permission on purpose.
	optional(t.Context(), reflector, errTransient)
	for _, normal := range []error{
		io.EOF, io.ErrUnexpectedEOF, apierrors.NewResourceExpired("too old"),
		fmt.Errorf("failed to list: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, "")),
	} {
		handler(t.Context(), reflector, normal)
		failed(normal)
	}

	exposed(t, reg, []string{"controller_watch_errors_total"}, `
controller_watch_errors_total{resource="Apps"} 1
controller_watch_errors_total{resource="Ingresses"} 1
controller_watch_errors_total{resource="Secrets"} 0
`)
}

func TestObjectCounts(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	known := false
	end := m.RegisterObjects("apps", func() (ObjectCounts, bool) {
		return ObjectCounts{
			States: map[State]int{StateReady: 2, StateDeleting: 1}, Held: map[string]int{"suspend": 0, "window": 4},
			Namespaces: map[string]NamespaceCounts{
				"a": {States: map[State]int{StateDeleting: 1}, OldestDeletion: time.Unix(1700000000, 0)},
				"b": {States: map[State]int{StateStalled: 2}, Failing: 1}, "c": {Failing: 3}, "well": {},
			},
			Rollout: &RolloutCounts{Queued: 5, Active: 10, Failed: 2, Halted: true},
		}, known
	})
	m.RegisterObjects("gone", func() (ObjectCounts, bool) { return ObjectCounts{}, true })()
	exposed(t, reg, []string{"controller_"}, "")
	known = true

	exposed(t, reg, []string{"controller_"}, `
controller_failing_namespaces{controller="apps"} 2
controller_held_resources{controller="apps",gate="suspend"} 0
controller_held_resources{controller="apps",gate="window"} 4
controller_namespace_failing_resources{controller="apps",resource_namespace="b"} 1
controller_namespace_failing_resources{controller="apps",resource_namespace="c"} 3
controller_namespace_resources{controller="apps",resource_namespace="a",state="deleting"} 1
controller_namespace_resources{controller="apps",resource_namespace="b",state="stalled"} 2
controller_namespaces{controller="apps"} 4
controller_oldest_deletion_timestamp_seconds{controller="apps",resource_namespace="a"} 1.7e+09
controller_resources{controller="apps",state="deleting"} 1
controller_resources{controller="apps",state="ready"} 2
controller_resources{controller="apps",state="reconciling"} 0
controller_resources{controller="apps",state="stalled"} 0
controller_rollout_halted{controller="apps"} 1
controller_rollouts{controller="apps",state="active"} 10
controller_rollouts{controller="apps",state="failed"} 2
controller_rollouts{controller="apps",state="queued"} 5
`)

	m.RegisterObjects("apps", func() (ObjectCounts, bool) { return ObjectCounts{}, true })
	end() // The newer count stays.
	exposed(t, reg, []string{"controller_"}, `
controller_failing_namespaces{controller="apps"} 0
controller_namespaces{controller="apps"} 0
controller_resources{controller="apps",state="deleting"} 0
controller_resources{controller="apps",state="ready"} 0
controller_resources{controller="apps",state="reconciling"} 0
controller_resources{controller="apps",state="stalled"} 0
`)
}

// TestNamespacesInMetricsAreBounded: of many namespaces with a problem, those with most Stalled
// objects are measured, then those with most failing objects, and then those with the oldest
// deletion.
func TestNamespacesInMetricsAreBounded(t *testing.T) {
	namespaces := map[string]NamespaceCounts{"failing": {Failing: 1}, "well": {}}
	for i := range 1000 {
		namespaces[fmt.Sprintf("ns-%03d", i)] = NamespaceCounts{States: map[State]int{StateReconciling: 1}}
	}
	namespaces["stalled"] = NamespaceCounts{States: map[State]int{StateStalled: 1}}
	namespaces["more-stalled"] = NamespaceCounts{States: map[State]int{StateStalled: 2}}
	namespaces["leaving"] = NamespaceCounts{States: map[State]int{StateDeleting: 1}, OldestDeletion: time.Unix(2, 0)}
	namespaces["leaving-longer"] = NamespaceCounts{States: map[State]int{StateDeleting: 1}, OldestDeletion: time.Unix(1, 0)}

	got := worst(namespaces)

	if want := []string{"more-stalled", "stalled", "failing", "leaving-longer", "leaving", "ns-000"}; len(got) != maxNamespaces || !slices.Equal(got[:6], want) {
		t.Errorf("%d namespaces, the first are %q, want %q", len(got), got[:6], want)
	}
}

// TestMetricsAreOptional holds that a nil *Metrics measures nothing.
func TestMetricsAreOptional(t *testing.T) {
	var m *Metrics

	m.Drift("apps").Detected(1)
	new(Corrections[string]).Corrected(m.Drift("apps"), "ns", "a", 0, time.Unix(0, 0))
	m.TimeToReady("apps")(time.Second)
	m.WatchFailures("Apps")(errTransient)
	m.RegisterObjects("apps", func() (ObjectCounts, bool) { return ObjectCounts{}, true })()

	if m.WatchErrors("Apps") == nil {
		t.Error("there is no watch error handler")
	}
}

// exposed compares the lines of /metrics that begin with one of the prefixes.
func exposed(t *testing.T, gatherer prometheus.Gatherer, prefixes []string, want string) {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			lines = append(lines, line)
		}
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "")); diff != "" {
		t.Errorf("/metrics (-want +got):\n%s", diff)
	}
}
