// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net/url"
	"strings"
	"testing"
	"time"

	clientmetrics "k8s.io/client-go/tools/metrics"
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

	// Clients that answer their own requests, such as the Helm clients, have a host that does not
	// exist.
	clientmetrics.RequestResult.Increment(t.Context(), "404", "GET", "absent.invalid")
	clientmetrics.RequestRetry.IncrementRetry(t.Context(), "404", "GET", "absent.invalid")
	clientmetrics.RequestLatency.Observe(t.Context(), "GET", url.URL{Host: "absent.invalid"}, time.Millisecond)

	handler := metricsHandler(m.registry)
	if _, body := get(t, handler, "/metrics"); strings.Contains(body, "absent.invalid") {
		t.Error("/metrics counts requests that have not left the process")
	}
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
