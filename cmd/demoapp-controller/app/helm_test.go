// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/pkg/helm"
)

func TestObserveOperation(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newHelmMetrics(registry)

	m.observe(helm.Operation{Action: "Install", Duration: time.Second})
	m.observe(helm.Operation{Action: "Upgrade", Err: errors.New("timeout")})
	m.observe(helm.Operation{Action: "Upgrade", Err: &helm.RenderError{Err: errors.New("template")}})
	m.observe(helm.Operation{Action: "Repair", Drifts: []helm.Drift{{Kind: helm.DriftMissing}, {Kind: helm.DriftMissing}}})

	body := exposed(t, registry)
	for _, want := range []string{
		`helm_operations_total{action="install",result="success"} 1`,
		`helm_operations_total{action="upgrade",result="error"} 1`,
		`helm_operations_total{action="upgrade",result="terminal"} 1`,
		`helm_operations_total{action="repair",result="success"} 1`,
		`helm_operation_duration_seconds_bucket{action="install",le="1"} 1`,
		`helm_drifted_objects_total{action="repair",drift="missing"} 2`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
