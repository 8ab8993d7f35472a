// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
)

// exposed returns the response of /metrics for registry.
func exposed(t *testing.T, registry prometheus.Gatherer) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

func TestObserveRollouts(t *testing.T) {
	registry := prometheus.NewRegistry()

	observeRollouts(registry, func() rollout.Counts { return rollout.Counts{Queued: 5, Active: 10, Failed: 2} })

	body := exposed(t, registry)
	for _, want := range []string{
		`demoapp_chart_rollouts{state="queued"} 5`, `demoapp_chart_rollouts{state="active"} 10`, `demoapp_chart_rollouts{state="failed"} 2`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
