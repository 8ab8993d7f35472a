// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/sandbox"
)

func TestParseValues(t *testing.T) {
	tests := map[string]struct {
		json string
		want map[string]any
		// err is the error; empty for none.
		err string
	}{
		"numbers":          {`{"a": 1000000, "b": 0.5, "c": [1]}`, map[string]any{"a": int64(1_000_000), "b": 0.5, "c": []any{int64(1)}}, ""},
		"an empty object":  {`{}`, map[string]any{}, ""},
		"null":             {`null`, nil, ""},
		"a list":           {`["hunter2"]`, nil, "spec.values: must be an object, nested at most 10000 deep, with numbers of at most 64 bits"},
		"a large number":   {`{"hunter2": 1e999}`, nil, "spec.values: must be an object, nested at most 10000 deep, with numbers of at most 64 bits"},
		"deep nesting":     {`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", nil, "spec.values: must be an object, nested at most 10000 deep"},
		"more than 256KiB": {`{"a": "` + strings.Repeat("x", 256<<10) + `"}`, nil, "spec.values: has 262153 bytes, more than the limit of 262144"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sandbox.ParseValues("spec.values", &runtime.RawExtension{Raw: []byte(test.json)})

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)) {
				t.Errorf("error is %v, want %q", err, test.err)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	base := map[string]any{"a": 1, "b": map[string]any{"c": 2, "d": 3}, "e": []any{4}, "f": 5, "g": nil}
	overrides := map[string]any{"b": map[string]any{"c": 6, "d": nil}, "e": []any{7}, "f": map[string]any{"h": nil, "i": 8}, "j": nil}

	got := sandbox.MergePatch(sandbox.MergePatch(nil, base), overrides)

	want := map[string]any{"a": 1, "b": map[string]any{"c": 6}, "e": []any{7}, "f": map[string]any{"i": 8}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"c": 2, "d": 3}, base["b"]); diff != "" {
		t.Errorf("the base has changed (-want +got):\n%s", diff)
	}
}
