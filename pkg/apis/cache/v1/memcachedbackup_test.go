// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	tests := []struct {
		name, object, spec string
		// field and message are those of the refusal; empty when the object is admitted.
		field, message string
	}{
		{"no pods", "cache", `{size: 0}`, "", ""},
		{"many pods", "cache", `{size: 2000}`, "", ""},
		{"the longest name", strings.Repeat("a", 63), `{}`, "", ""},
		{"a name with a dot", "cache.example", `{}`, "", ""},
		{"a negative size", "cache", `{size: -1}`, "spec.size", "greater than or equal to 0"},
		{"a size as text", "cache", `{size: "1"}`, "spec.size", "integer"},
		{"a name too long", strings.Repeat("a", 64), `{}`, "metadata", "at most 63 characters"},
	}
	definition := crd.Load(t, file)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := definition.Admit(t, definition.Object(t, test.object, test.spec))

			if test.field == "" {
				if len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
				return
			}
			if !slices.ContainsFunc(errs, func(err *field.Error) bool {
				return err.Field == test.field && strings.Contains(err.Error(), test.message)
			}) {
				t.Errorf("got %v, want an error of field %q containing %q", errs, test.field, test.message)
			}
		})
	}
}

func TestMemcachedBackupColumns(t *testing.T) {
	definition := crd.Load(t, file)
	object := definition.Object(t, "cache", `{size: 3}`)
	object["status"] = map[string]any{"readyReplicas": int64(2)}

	row := definition.Row(t, object)

	delete(row, "Age")
	want := map[string]any{"Name": "cache", "Size": int64(3), "Ready": int64(2)}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
