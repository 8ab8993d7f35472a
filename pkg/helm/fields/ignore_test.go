// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
	"sigs.k8s.io/yaml"
)

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestAdopt(t *testing.T) {
	const desired = `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`
	tests := []struct {
		name, live, path, want string
	}{
		{"another value", `{spec: {replicas: 3}}`, "/spec/replicas", `{spec: {replicas: 3, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"no value", `{spec: {}}`, "/spec/replicas", `{spec: {list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"a field that is not desired", `{spec: {extra: 1}}`, "/spec/extra", `{spec: {extra: 1, replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"a parent that is not desired", `{other: {extra: 1}}`, "/other/extra", desired},
		{"an item by its name", `{spec: {list: [{name: b, v: 7}]}}`, "/spec/list/1/v", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 7}], plain: [1, 2]}}`},
		{"a whole item", `{spec: {list: [{name: b, v: 7}]}}`, "/spec/list/1", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 7}], plain: [1, 2]}}`},
		{"an item by its place", `{spec: {plain: [5, 6]}}`, "/spec/plain/1", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 6]}}`},
		{"no such place", `{spec: {plain: [5, 6]}}`, "/spec/plain/9", desired},
		{"no place at all", `{spec: {plain: [5, 6]}}`, "/spec/plain/x", desired},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := parsed(t, desired)
			adopt(got, parsed(t, test.live), pointerTokens(test.path))
			if diff := cmp.Diff(parsed(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestIgnoredPaths(t *testing.T) {
	rules := []IgnoreRule{
		{Kind: "Deployment", Paths: []string{"/spec/replicas"}},
		{Kind: "ConfigMap", Name: "a", Paths: []string{"/data", "/immutable"}},
		{Kind: "ConfigMap", Paths: []string{"/metadata/labels/x"}},
	}
	tests := []struct {
		kind, name string
		want       []string
	}{
		{"Deployment", "a", []string{"/spec/replicas"}},
		{"Deployment", "b", []string{"/spec/replicas"}},
		{"ConfigMap", "a", []string{"/data", "/immutable", "/metadata/labels/x"}},
		{"ConfigMap", "b", []string{"/metadata/labels/x"}},
		{"Secret", "a", nil},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, IgnoredPaths(rules, test.kind, test.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.kind, test.name, diff)
		}
	}
}

// TestIgnoredFields finds the meaning of a JSON pointer in the paths of managedFields.
func TestIgnoredFields(t *testing.T) {
	chart := &unstructured.Unstructured{Object: parsed(t, `
kind: Thing
metadata: {name: web}
spec:
  replicas: 1
  selector: {a: b}
  ports: [{port: 80}, {port: 443, protocol: TCP}]
  containers: [{name: web, image: "web:1"}, {name: side, image: "side:1"}]
  finalizers: [one, two]
`)}
	item := func(name string, field ...any) fieldpath.Path {
		return fieldpath.MakePathOrDie(append([]any{"spec", "containers", fieldpath.KeyByFields("name", name)}, field...)...)
	}
	port := func(number int, protocol string) fieldpath.Path {
		return fieldpath.MakePathOrDie("spec", "ports", fieldpath.KeyByFields("port", number, "protocol", protocol))
	}
	tests := []struct {
		name    string
		pointer string
		path    fieldpath.Path
		// covered says that the field is ignored, removable that it can be removed.
		covered, removable bool
	}{
		{"the field", "/spec/replicas", fieldpath.MakePathOrDie("spec", "replicas"), true, false},
		{"another one", "/spec/replicas", fieldpath.MakePathOrDie("spec", "replicasPerNode"), false, true},
		{"below it", "/spec", fieldpath.MakePathOrDie("spec", "replicas"), true, false},
		{"what holds it", "/spec/selector/a", fieldpath.MakePathOrDie("spec", "selector"), false, false},
		{"a field that the chart does not have", "/metadata/labels/x~1y", fieldpath.MakePathOrDie("metadata", "labels", "x/y"), true, false},
		{"of an item", "/spec/containers/1/image", item("side", "image"), true, false},
		{"of another item", "/spec/containers/1/image", item("web", "image"), false, true},
		{"another field of the item", "/spec/containers/1/image", item("side", "command"), false, true},
		{"the item that holds it", "/spec/containers/1/image", item("side"), false, false},
		{"the whole item", "/spec/containers/1", item("side", "image"), true, false},
		{"an item of others", "/spec/containers/1", item("extra"), false, true},
		{"no such place", "/spec/containers/9", item("extra"), false, true},
		{"no place at all", "/spec/containers/web", item("web"), false, true},
		{"an item with a key by default", "/spec/ports/0", port(80, "TCP"), true, false},
		{"an item with all keys", "/spec/ports/1", port(443, "TCP"), true, false},
		{"an item with another key", "/spec/ports/1", port(443, "UDP"), false, true},
		{"a value", "/spec/finalizers/1", fieldpath.MakePathOrDie("spec", "finalizers", value.NewValueInterface("two")), true, false},
		{"another value", "/spec/finalizers/1", fieldpath.MakePathOrDie("spec", "finalizers", value.NewValueInterface("one")), false, true},
		{"a place", "/spec/finalizers/1", fieldpath.MakePathOrDie("spec", "finalizers", 1), true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ignored := NewIgnored([]IgnoreRule{{Kind: "Thing", Paths: []string{test.pointer}}}, chart)
			if got := ignored.Cover(test.path); got != test.covered {
				t.Errorf("%s covers %s: %t", test.pointer, test.path, got)
			}
			if got := !ignored.Without(fieldpath.NewSet(test.path)).Empty(); got != test.removable {
				t.Errorf("%s leaves %s: %t", test.pointer, test.path, got)
			}
		})
	}
}

func TestHasField(t *testing.T) {
	object := parsed(t, `{data: {a: x}, list: [{name: one, value: 1}, {name: two}], set: [x]}`)
	item := func(name string) *value.FieldList { return fieldpath.KeyByFields("name", name) }
	tests := []struct {
		path fieldpath.Path
		want bool
	}{
		{fieldpath.MakePathOrDie("data", "a"), true},
		{fieldpath.MakePathOrDie("data", "b"), false},
		{fieldpath.MakePathOrDie("data", "a", "b"), false},
		{fieldpath.MakePathOrDie("list", item("two")), true},
		{fieldpath.MakePathOrDie("list", item("one"), "value"), true},
		{fieldpath.MakePathOrDie("list", item("two"), "value"), false},
		{fieldpath.MakePathOrDie("list", item("three")), false},
		{fieldpath.MakePathOrDie("set", value.NewValueInterface("x")), true},
		{fieldpath.MakePathOrDie("set", value.NewValueInterface("y")), false},
		{fieldpath.MakePathOrDie("none", item("one")), false},
	}
	for _, test := range tests {
		if got := hasField(object, test.path); got != test.want {
			t.Errorf("has %s is %t", test.path, got)
		}
	}
}
