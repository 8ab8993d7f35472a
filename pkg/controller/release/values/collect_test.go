// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/test/expect"
)

func TestParseValues(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]any
		says       string
	}{
		{"YAML", "a: 1\nb: {c: [x, 2.5, true]}", map[string]any{"a": int64(1), "b": map[string]any{"c": []any{"x", 2.5, true}}}, ""},
		{"JSON", `{"a": 1000000}`, map[string]any{"a": int64(1000000)}, ""},
		{"null value", "a: null", map[string]any{"a": nil}, ""},
		{"empty", "", nil, ""},
		{"only comments", "# none yet\n", nil, ""},
		{"list", "- a", nil, "not an object"},
		{"text", "hello", nil, "not an object"},
		{"invalid YAML", "a: [", nil, "cannot be parsed"},
		{"duplicate key", "a: 1\na: 2", nil, "already set"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := newBudget().parse(test.text)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatalf("error is %v, want one containing %q", err, test.says)
			}
			expect.Equal(t, "values", test.want, got)
		})
	}
}

func TestMerge(t *testing.T) {
	base := map[string]any{"a": map[string]any{"x": 1, "y": 2}, "list": []any{1, 2}, "kept": true}
	over := map[string]any{"a": map[string]any{"y": 3, "z": 4}, "list": []any{3}, "gone": nil}
	want := map[string]any{"a": map[string]any{"x": 1, "y": 3, "z": 4}, "list": []any{3}, "kept": true, "gone": nil}
	expect.Equal(t, "merged", want, Merge(base, over))
	expect.Equal(t, "object over text", map[string]any{"a": map[string]any{"b": 1}}, Merge(map[string]any{"a": "text"}, map[string]any{"a": map[string]any{"b": 1}}))
	expect.Equal(t, "text over object", map[string]any{"a": "text"}, Merge(map[string]any{"a": map[string]any{"b": 1}}, map[string]any{"a": "text"}))
	expect.Equal(t, "base", map[string]any{"a": map[string]any{"x": 1, "y": 2}, "list": []any{1, 2}, "kept": true}, base)
	expect.Equal(t, "both empty", map[string]any{}, Merge(nil, nil))
}

// TestNumbersFromSecretsAreRedacted: a number is redacted in each form in which a message may write
// it.
func TestNumbersFromSecretsAreRedacted(t *testing.T) {
	values, err := newBudget().parse("pin: 271828\nlist: [{ratio: 2718.25}, -31415926]\nshort: 271\nflag: true\nhuge: 314159265358979323846\n")
	expect.NoError(t, err)
	tests := []struct{ name, text, want string }{
		{"in full", "got 271828", "got REDACTED"},
		{"large, as Go writes it", "got 314159265358979330000 or 3.1415926535897933e+20", "got REDACTED or REDACTED"},
		{"with digit groups", "maximum: got 271,828, want 10", "maximum: got REDACTED, want 10"},
		{"negative", "minimum: got -31,415,926, want 10", "minimum: got REDACTED, want 10"},
		{"fraction", "got 2718.25 or 2,718.25", "got REDACTED or REDACTED"},
		{"too short to be secret", "got 271, and 1 of 271 pods", "got 271, and 1 of 271 pods"},
		{"boolean", "got true, want string", "got true, want string"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "text", test.want, redact.Text(textsIn(values, nil), test.text))
		})
	}
}
