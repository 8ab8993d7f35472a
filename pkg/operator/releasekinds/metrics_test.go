// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/example/demoapp-controller/pkg/helm"
)

func TestObserveOperation(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)

	m.observe(helm.Operation{Action: "Install", Duration: time.Second})
	m.observe(helm.Operation{Action: "Upgrade", Err: errors.New("timeout")})
	m.observe(helm.Operation{Action: "Upgrade", Err: &helm.RenderError{Err: errors.New("template")}})
	m.observe(helm.Operation{Action: "Repair", Duration: 2 * time.Second})

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	body := answer.Body.String()
	for _, want := range []string{
		`helm_operations_total{action="install",result="success"} 1`,
		`helm_operations_total{action="upgrade",result="error"} 1`,
		`helm_operations_total{action="upgrade",result="terminal"} 1`,
		`helm_operations_total{action="repair",result="success"} 1`,
		`helm_operations_total{action="rollback",result="terminal"} 0`,
		`helm_operation_duration_seconds_bucket{action="install",result="success",le="1"} 1`,
		`helm_operation_duration_seconds_count{action="upgrade",result="terminal"} 1`,
		`helm_operation_duration_seconds_sum{action="repair",result="success"} 2`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
