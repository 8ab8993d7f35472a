// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

// resource returns a Memcached named shop/cache with a spec.
func resource(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cache.my.domain/v1",
		"kind":       "Memcached",
		"metadata":   map[string]any{"namespace": "shop", "name": "cache", "uid": "0f"},
		"spec":       spec,
	}}
}

func TestReleaseName(t *testing.T) {
	spec := map[string]any{"size": int64(3), "team": "Blue Team", "none": nil, "long": strings.Repeat("x", 1<<20)}
	tests := []struct{ name, template, want, err string }{
		{"default", "", "cache", ""},
		{"namespace and name", "{{ .metadata.namespace }}-{{ .metadata.name }}", "shop-cache", ""},
		{"with a dot", "{{ .metadata.namespace }}.{{ .metadata.name }}", "shop.cache", ""},
		{"number", "cache-{{ .spec.size }}", "cache-3", ""},
		{"functions", `{{ .spec.team | lower | replace " " "-" | trunc 6 | trimSuffix "-" }}`, "blue-t", ""},
		{"hash", `{{ .metadata.uid | sha256sum | trunc 10 }}`, "0540513563", ""},
		{"condition", `{{ if eq .spec.size 3 }}three{{ end }}`, "three", ""},
		{"missing field", "{{ .spec.name }}", "", `map has no entry for key "name"`},
		{"missing object", "{{ .status.a.b }}", "", `map has no entry for key "status"`},
		{"null", "{{ .spec.none }}", "", `gives "<no value>"; the name of a release must have lower-case letters`},
		{"object", "{{ .spec }}", "", "gives a name of more than 256 characters"},
		{"upper case", "{{ .spec.team }}", "", `gives "Blue Team"; the name of a release must have lower-case letters, digits, dots and dashes`},
		{"dash at the end", "{{ .metadata.name }}-", "", `gives "cache-"; the name of a release must have lower-case letters`},
		{"empty", "{{ if false }}x{{ end }}", "", `gives ""; the name of a release must have lower-case letters`},
		{"54 characters", `{{ printf "%054d" 0 }}`, "", "with 54 characters, and a release may have 53; shorten it in watches.yaml"},
		{"53 characters", `{{ printf "%053d" 0 }}`, strings.Repeat("0", 53), ""},
		{"long text", "{{ .spec.long }}", "", "gives a name of more than 256 characters"},
		{"endless recursion", `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`, "", "exceeded maximum template depth"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var name *file.NameTemplate
			if test.template != "" {
				var err error
				if name, err = file.ParseNameTemplate(test.template); err != nil {
					t.Fatal(err)
				}
			}

			got, err := name.Execute(resource(spec))

			if test.err == "" && (err != nil || got != test.want) {
				t.Errorf("got %q and error %v, want %q", got, err, test.want)
			}
			if test.err != "" {
				assertRuntimeError(t, err, "releaseName of Memcached shop/cache: ", test.err)
			}
		})
	}
}

// assertRuntimeError checks an error that a resource causes: it names the field and the resource,
// in one short line.
func assertRuntimeError(t *testing.T, err error, prefix, want string) {
	t.Helper()
	text := fmt.Sprint(err)
	if !strings.HasPrefix(text, prefix) || !strings.Contains(text, want) {
		t.Errorf("got %.2000s\nwant %s...%s", text, prefix, want)
	}
	if strings.Contains(text, "\n") || len(text) > 1200 {
		t.Errorf("the error is not one short line: %.2000q", text)
	}
}

// TestReleaseNameOfLongName: the default is an error if the name of the resource is not one of a
// release.
func TestReleaseNameOfLongName(t *testing.T) {
	object := resource(nil)
	object.SetName(strings.Repeat("a", 54))
	object.SetNamespace("")
	var name *file.NameTemplate

	_, err := name.Execute(object)

	assertRuntimeError(t, err, "releaseName of Memcached aaa", "with 54 characters, and a release may have 53")
}
