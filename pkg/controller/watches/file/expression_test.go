// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/controller/watches/file"
)

func compile(t *testing.T, text string) *file.Expression {
	t.Helper()
	expression, err := new(file.Compiler).Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return expression
}

func TestValues(t *testing.T) {
	spec := map[string]any{"size": int64(3), "ratio": 0.5, "image": map[string]any{"tag": "1.6"}, "args": []any{"-v", nil}}
	tests := []struct {
		name, expression string
		want             map[string]any
	}{
		{"spec", "self.spec", spec},
		{"empty", "{}", map[string]any{}},
		{"mixed types", `{"replicaCount": self.spec.size, "name": self.metadata.name, "on": true, "half": self.spec.ratio, "none": null}`, map[string]any{
			"replicaCount": int64(3), "name": "cache", "on": true, "half": 0.5, "none": nil,
		}},
		{"lists and objects", `{"args": self.spec.args + ["-m"], "image": self.spec.image}`, map[string]any{
			"args": []any{"-v", nil, "-m"}, "image": map[string]any{"tag": "1.6"},
		}},
		{"default", `{"port": self.spec.?port.orValue(11211)}`, map[string]any{"port": int64(11211)}},
		{"optional key", `{?"port": self.spec.?port, ?"size": self.spec.?size}`, map[string]any{"size": int64(3)}},
		{"object of an object", `self.spec.image.transformMap(k, v, v + "!")`, map[string]any{"tag": "1.6!"}},
		{"condition", `has(self.spec.tls) ? {"tls": self.spec.tls} : {"tls": {"enabled": false}}`, map[string]any{"tls": map[string]any{"enabled": false}}},
		{"library of strings", `{"host": "%s.%s".format([self.metadata.name, self.metadata.namespace])}`, map[string]any{"host": "cache.shop"}},
		{"library of quantities", `{"big": quantity("2Gi").isGreaterThan(quantity("1G"))}`, map[string]any{"big": true}},
		{"time", `{"after": timestamp("2025-01-01T00:00:00Z") + duration("1h")}`, map[string]any{"after": "2025-01-01T01:00:00Z"}},
		{"bytes", `{"data": b"a"}`, map[string]any{"data": "YQ=="}},
		{"unsigned", `{"n": 5u}`, map[string]any{"n": int64(5)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := compile(t, test.expression).Evaluate(t.Context(), resource(spec))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValuesErrors: what an expression makes of a resource can fail, and is limited.
func TestValuesErrors(t *testing.T) {
	numbers := make([]any, 3000)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	deep := any("end")
	for range 200 {
		deep = []any{deep}
	}
	spec := map[string]any{"numbers": numbers, "deep": deep, "long": strings.Repeat("x", 600<<10), "text": "a"}
	tests := []struct{ name, expression, want string }{
		{"missing field", `{"a": self.spec.missing}`, "no such key: missing"},
		{"wrong type", `{"a": self.spec.text + 1}`, "no such overload"},
		{"no object", "self.spec.numbers", "the expression gives list, and must give an object"},
		{"null", "self.?status.orValue(null)", "the expression gives null_type, and must give an object"},
		{"key that is no text", "self.spec.deep.transformMapEntry(i, v, {i: v})", "the result has a key of type int; a key must be a text"},
		{"infinity", `{"a": 1.0 / 0.0}`, "the result has a number that JSON does not have: NaN or infinity"},
		{"unsigned too large", `{"a": 18446744073709551615u}`, "18446744073709551615 is too large"},
		{"type", `{"a": type(1)}`, "the result has a value of type type, which JSON does not have"},
		{"optional as a value", `{"a": self.?spec}`, "the result has a value of type optional_type, which JSON does not have"},
		{"cost", `{"a": self.spec.numbers.all(a, self.spec.numbers.all(b, a + b >= 0))}`, "actual cost limit exceeded"},
		{"many values", `{"a": self.spec.numbers.map(a, [a, a, a, a, a, a, a])}`, "the result has more than 20000 values"},
		{"many bytes", `{"a": self.spec.long, "b": self.spec.long}`, "the result has more than 1048576 bytes"},
		{"depth", "self.spec", "is more than 100 deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := compile(t, test.expression).Evaluate(t.Context(), resource(spec))

			assertRuntimeError(t, err, "values of Memcached shop/cache: ", test.want)
		})
	}
}

// TestValuesCanceled: an expression ends with its context.
func TestValuesCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	numbers := make([]any, 1000)
	for i := range numbers {
		numbers[i] = int64(i)
	}

	_, err := compile(t, `{"a": self.spec.all(a, self.spec.all(b, a + b >= 0))}`).Evaluate(ctx, resource(numbers))

	assertRuntimeError(t, err, "values of Memcached shop/cache: ", "operation interrupted")
}

// TestValuesWithoutExpression: the spec has the values, as upstream.
func TestValuesWithoutExpression(t *testing.T) {
	spec := map[string]any{"size": int64(3)}
	tests := []struct {
		name string
		spec any
		want map[string]any
		err  string
	}{
		{"spec", spec, spec, ""},
		{"no spec", nil, map[string]any{}, ""},
		{"spec that is a text", "a", nil, "spec is not an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var expression *file.Expression

			got, err := expression.Evaluate(t.Context(), resource(test.spec))

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if test.err != "" {
				assertRuntimeError(t, err, "values of Memcached shop/cache: ", test.err)
				if errors.Unwrap(err) == nil {
					t.Error("the cause is lost")
				}
			}
		})
	}
}
