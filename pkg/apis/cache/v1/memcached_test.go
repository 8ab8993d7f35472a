// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const chartFile = "artifacts/kinds/memcached/crd.yaml"

func TestMemcachedKeepsUnknownFields(t *testing.T) {
	structural := crd.Load(t, chartFile).Structural

	for _, field := range []string{"spec", "status"} {
		if property := structural.Properties[field]; !property.XPreserveUnknownFields {
			t.Errorf("%s is pruned", field)
		}
	}
}

func TestMemcachedAdmission(t *testing.T) {
	const message = "metadata.name must be a DNS-1035 label of at most 53 characters"
	tests := []struct {
		name, object, spec string
		admitted           bool
	}{
		{"no spec", "cache", `null`, true},
		{"any values", "cache", `{replicaCount: 3, image: {tag: x}, unknown: [1]}`, true},
		{"the longest name", strings.Repeat("a", 53), `{}`, true},
		{"a name too long", strings.Repeat("a", 54), `{}`, false},
		{"a name with a dot", "cache.example", `{}`, false},
		{"a name beginning with a digit", "1cache", `{}`, false},
	}
	definition := crd.Load(t, chartFile)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := definition.Admit(t, definition.Object(t, test.object, test.spec))

			refused := len(errs) == 1 && errs[0].Field == "metadata" && strings.Contains(errs[0].Detail, message)
			if test.admitted && len(errs) > 0 || !test.admitted && !refused {
				t.Errorf("errors are %v, want admitted = %t", errs, test.admitted)
			}
		})
	}
}

func TestMemcachedColumns(t *testing.T) {
	crd.Load(t, chartFile).TestColumns(t, "cache", `{}`, map[string]any{
		"conditions": []any{
			map[string]any{"type": "Initialized", "status": "True"},
			map[string]any{"type": "Ready", "status": "False", "reason": "Progressing"},
		},
		"deployedRelease": map[string]any{"name": "cache", "revision": int64(2)},
	},
		map[string]any{"Name": "cache", "Ready": "False", "Reason": "Progressing", "Revision": int64(2)})
}
