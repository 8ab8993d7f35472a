// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
)

// measures checks lines of /metrics.
func (w *world) measures(want ...string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}).
		ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range want {
		if !strings.Contains(answer.Body.String(), "\n"+line+"\n") {
			w.t.Errorf("/metrics lacks %s", line)
		}
	}
}

func TestDriftIsCountedOncePerObject(t *testing.T) {
	const detected, corrected = `controller_drift_detected_total{controller="shop"} `, `controller_drift_corrected_total{controller="shop"} `
	tests := []struct {
		name                string
		policy              releasev1alpha1.DriftPolicy
		detected, corrected string
	}{
		{"corrected", releasev1alpha1.DriftPolicy{}, "3", "3"},
		{"reported", releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftWarn}, "2", "0"},
		{"off", releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, "0", "0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, policy(test.policy))
			w.measures(detected+"0", corrected+"0")

			for _, change := range []func(*releasetest.Release){
				releasetest.ChangeField("ConfigMap", "/data/page"), releasetest.Remove("Service"), releasetest.ChangeField("ConfigMap", "/data/page"),
			} {
				w.engine.Mutate(keyOf("a"), change)
				for range 2 {
					w.passes("a", controller.Drift)
				}
			}

			w.measures(detected+test.detected, corrected+test.corrected)
		})
	}
}

// TestSuspendedDriftIsDetected holds that drift counts although nothing corrects it.
func TestSuspendedDriftIsDetected(t *testing.T) {
	w := deployed(t)
	w.change("a", suspended(true))
	w.passes("a", controller.SpecChange)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))

	w.passes("a", controller.Drift)

	w.measures(`controller_drift_detected_total{controller="shop"} 1`, `controller_drift_corrected_total{controller="shop"} 0`)
}

// TestDriftThatAnUpgradeRestoresIsCorrected holds that each detected object is counted as corrected
// in the end.
func TestDriftThatAnUpgradeRestoresIsCorrected(t *testing.T) {
	w := deployed(t)
	w.change("a", suspended(true))
	w.passes("a", controller.SpecChange)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.Drift)

	w.change("a", func(shop *Shop) {
		suspended(false)(shop)
		says("changed")(shop)
	})
	w.passes("a", controller.SpecChange)

	w.measures(`controller_drift_detected_total{controller="shop"} 1`, `controller_drift_corrected_total{controller="shop"} 1`)
}
