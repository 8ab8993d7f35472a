// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
	const wanted = `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`
	tests := []struct {
		name, live, path, want string
	}{
		{"another value", `{spec: {replicas: 3}}`, "/spec/replicas", `{spec: {replicas: 3, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"no value", `{spec: {}}`, "/spec/replicas", `{spec: {list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"a field that is not wanted", `{spec: {extra: 1}}`, "/spec/extra", `{spec: {extra: 1, replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 2]}}`},
		{"a parent that is not wanted", `{other: {extra: 1}}`, "/other/extra", wanted},
		{"an item by its name", `{spec: {list: [{name: b, v: 7}]}}`, "/spec/list/1/v", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 7}], plain: [1, 2]}}`},
		{"a whole item", `{spec: {list: [{name: b, v: 7}]}}`, "/spec/list/1", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 7}], plain: [1, 2]}}`},
		{"an item by its place", `{spec: {plain: [5, 6]}}`, "/spec/plain/1", `{spec: {replicas: 1, list: [{name: a, v: 1}, {name: b, v: 1}], plain: [1, 6]}}`},
		{"no such place", `{spec: {plain: [5, 6]}}`, "/spec/plain/9", wanted},
		{"no place at all", `{spec: {plain: [5, 6]}}`, "/spec/plain/x", wanted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := parsed(t, wanted)
			adopt(got, parsed(t, test.live), pointerTokens(test.path))
			if diff := cmp.Diff(parsed(t, test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	tests := []struct {
		name, wanted, live string
		want               []string
	}{
		{"none", `{a: {b: [1, {name: x}]}}`, `{a: {b: [1, {name: x}]}}`, nil},
		{"a value", `{a: {b: 1}}`, `{a: {b: 2}}`, []string{"/a/b"}},
		{"added and removed", `{a: 1, b: 2}`, `{b: 2, c: 3}`, []string{"/a", "/c"}},
		{"another type", `{a: {b: 1}, c: [1]}`, `{a: 1, c: {}}`, []string{"/a", "/c"}},
		{"a shorter list", `{a: [1, 2]}`, `{a: [1]}`, []string{"/a"}},
		{"an item, in another order", `{a: [{name: x, v: 1}, {name: y, v: 1}]}`, `{a: [{name: y, v: 2}, {name: x, v: 1}]}`, []string{"/a/1/v"}},
		{"characters with a meaning", `{a/b: 1, "c~d": 1}`, `{}`, []string{"/a~1b", "/c~0d"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, differences(parsed(t, test.wanted), parsed(t, test.live), "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	rules := []IgnoreRule{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}, {Kind: "ConfigMap", Name: "a", Paths: []string{"/data"}}}
	tests := []struct {
		kind, name, path string
		want             bool
	}{
		{"Deployment", "a", "/spec/replicas", true},
		{"Deployment", "b", "/spec/replicas", true},
		{"Deployment", "a", "/spec/replicasPerNode", false},
		{"Deployment", "a", "/spec", false},
		{"ConfigMap", "a", "/data/index.html", true},
		{"ConfigMap", "b", "/data/index.html", false},
		{"Secret", "a", "/data", false},
	}
	for _, test := range tests {
		got := Ignored(test.path, IgnoredPaths(rules, ObjectReference{Kind: test.kind, Name: test.name}))
		if got != test.want {
			t.Errorf("%s of %s %s: ignored is %t", test.path, test.kind, test.name, got)
		}
	}
}
