// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

func TestMetrics(t *testing.T) {
	result, retry, latency := clientmetrics.RequestResult, clientmetrics.RequestRetry, clientmetrics.RequestLatency
	t.Cleanup(func() {
		clientmetrics.RequestResult, clientmetrics.RequestRetry, clientmetrics.RequestLatency = result, retry, latency
	})
	m := newMetrics()
	m.observeClients()
	leading := m.leading("demoapp-controller")
	clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", "h")
	clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", "h")
	clientmetrics.RequestRetry.IncrementRetry(t.Context(), "429", "GET", "h")
	clientmetrics.RequestLatency.Observe(t.Context(), "GET", url.URL{Host: "h", Path: "/secret"}, 3*time.Millisecond)

	handler := metricsHandler(m.registry)
	for _, want := range []string{
		`rest_client_requests_total{code="200",host="h",method="GET"} 2`,
		`rest_client_request_retries_total{code="429",host="h",method="GET"} 1`,
		`rest_client_request_duration_seconds_bucket{host="h",verb="GET",le="0.005"} 1`,
		`leader_election_master_status{name="demoapp-controller"} 0`,
		"go_build_info{", "go_goroutines ", "process_start_time_seconds ",
	} {
		if code, body := get(t, handler, "/metrics"); code != 200 || !strings.Contains(body, "\n"+want) {
			t.Errorf("/metrics = %d, without %s", code, want)
		}
	}
	for _, leads := range []bool{true, false} {
		leading(leads)
		want := "\n" + `leader_election_master_status{name="demoapp-controller"} ` + map[bool]string{true: "1", false: "0"}[leads] + "\n"
		if _, body := get(t, handler, "/metrics"); !strings.Contains(body, want) {
			t.Errorf("/metrics without %q", want)
		}
	}
}

func TestObserveRollouts(t *testing.T) {
	m := newMetrics()
	m.observeRollouts(func() rollout.Counts { return rollout.Counts{Queued: 5, Active: 10, Failed: 2} })
	_, body := get(t, metricsHandler(m.registry), "/metrics")
	for _, want := range []string{
		`demoapp_chart_rollouts{state="queued"} 5`, `demoapp_chart_rollouts{state="active"} 10`, `demoapp_chart_rollouts{state="failed"} 2`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics without %s", want)
		}
	}
}

func TestObserveOperation(t *testing.T) {
	m := newMetrics()
	m.observeOperation(helm.Operation{Action: "Install", Duration: time.Second})
	m.observeOperation(helm.Operation{Action: "Upgrade", Err: errors.New("timeout")})
	m.observeOperation(helm.Operation{Action: "Upgrade", Err: &helm.RenderError{Err: errors.New("template")}})
	m.observeOperation(helm.Operation{Action: "Repair", Drifts: []helm.Drift{{Kind: helm.DriftMissing}, {Kind: helm.DriftMissing}}})
	_, body := get(t, metricsHandler(m.registry), "/metrics")
	for _, want := range []string{
		`helm_operations_total{action="install",result="success"} 1`,
		`helm_operations_total{action="upgrade",result="error"} 1`,
		`helm_operations_total{action="upgrade",result="terminal"} 1`,
		`helm_operations_total{action="repair",result="success"} 1`,
		`helm_operation_duration_seconds_bucket{action="install",le="1"} 1`,
		`helm_drifted_objects_total{action="repair",drift="missing"} 2`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics without %s", want)
		}
	}
}
