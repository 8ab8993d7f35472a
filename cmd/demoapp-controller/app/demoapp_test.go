// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

func TestServedOnly(t *testing.T) {
	whole := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{
				"name": "webs.example.com", "uid": "1", "resourceVersion": "2", "deletionTimestamp": "2026-01-02T03:04:05Z",
				"annotations": map[string]any{"long": "text"},
			},
			"spec": map[string]any{
				"group":    "example.com",
				"versions": []any{map[string]any{"name": "v1", "served": true, "schema": map[string]any{"large": "very"}}},
			},
			"status": status,
		}}
	}
	conditions := map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	kept := func(status map[string]any) *unstructured.Unstructured {
		object := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "webs.example.com", "uid": "1", "resourceVersion": "2", "deletionTimestamp": "2026-01-02T03:04:05Z"},
			"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1", "served": true}}},
		}
		if status != nil {
			object["status"] = status
		}
		return &unstructured.Unstructured{Object: object}
	}
	tests := []struct {
		name         string
		object, want any
	}{
		{"whole", whole(map[string]any{"conditions": conditions["conditions"], "acceptedNames": map[string]any{}}), kept(conditions)},
		{"no status", whole(map[string]any{}), kept(nil)},
		{"already reduced", kept(conditions), kept(conditions)},
		{"a tombstone", "gone", "gone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := servedOnly(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
