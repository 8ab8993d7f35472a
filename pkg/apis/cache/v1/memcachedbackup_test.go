// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/memcachedbackup/crd.yaml"

func TestMemcachedBackupDefaults(t *testing.T) {
	for _, spec := range []string{`null`, `{}`, `{size: null}`} {
		t.Run(spec, func(t *testing.T) {
			definition := crd.Load(t, file)
			object := definition.Object(t, "cache", spec)

			errs := definition.Admit(t, object)

			if len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			if diff := cmp.Diff(map[string]any{"size": int64(1)}, object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemcachedBackupAdmission(t *testing.T) {
	tests := crd.Cases{
		{"no pods", "cache", `{size: 0}`, "", ""},
		{"many pods", "cache", `{size: 1000}`, "", ""},
		{"the longest name", strings.Repeat("a", 63), `{}`, "", ""},
		{"a name with a dot", "cache.example", `{}`, "", ""},
		{"too many pods", "cache", `{size: 1001}`, "spec.size", "less than or equal to 1000"},
		{"a negative size", "cache", `{size: -1}`, "spec.size", "greater than or equal to 0"},
		{"a size as text", "cache", `{size: "1"}`, "spec.size", "integer"},
		{"a name too long", strings.Repeat("a", 64), `{}`, "metadata", "at most 63 characters"},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestMemcachedBackupColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "cache", `{size: 3}`, map[string]any{"readyReplicas": int64(2)},
		map[string]any{"Name": "cache", "Size": int64(3), "Ready": int64(2)})
}
