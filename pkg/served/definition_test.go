// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/served"
)

func TestDefinitionServes(t *testing.T) {
	set := func(value any, path ...string) func(map[string]any) {
		return func(crd map[string]any) { _ = unstructured.SetNestedField(crd, value, path...) }
	}
	tests := []struct {
		name   string
		change func(crd map[string]any)
		want   bool
	}{
		{name: "established", change: func(map[string]any) {}, want: true},
		{name: "just created", change: func(crd map[string]any) { delete(crd, "status") }},
		{
			name:   "names refused",
			change: set([]any{map[string]any{"type": "Established", "status": "False"}}, "status", "conditions"),
		},
		{name: "being deleted", change: set("2026-01-02T03:04:05Z", "metadata", "deletionTimestamp")},
		{name: "another version", change: set([]any{map[string]any{"name": "v1", "served": true}}, "spec", "versions")},
		{name: "version not served", change: set([]any{map[string]any{"name": "v1alpha1", "served": false}}, "spec", "versions")},
		{
			name: "several versions", want: true,
			change: set([]any{
				map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1alpha1", "served": true},
			}, "spec", "versions"),
		},
		{name: "unreadable", change: set("all", "spec", "versions")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			crd := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "apps.example.com"},
				"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1alpha1", "served": true}}},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
			}}
			test.change(crd.Object)

			got := served.DefinitionOf(crd).Serves("v1alpha1")

			if got != test.want {
				t.Errorf("Serves() = %v, want %v", got, test.want)
			}
		})
	}
}
