// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestDifferences(t *testing.T) {
	tests := []struct {
		name, desired, live string
		want                []string
	}{
		{"none", `{a: {b: [1, {name: x}]}}`, `{a: {b: [1, {name: x}]}}`, nil},
		{"a value", `{a: {b: 1}}`, `{a: {b: 2}}`, []string{"/a/b"}},
		{"added and removed", `{a: 1, b: 2}`, `{b: 2, c: 3}`, []string{"/a", "/c"}},
		{"another type", `{a: {b: 1}, c: [1]}`, `{a: 1, c: {}}`, []string{"/a", "/c"}},
		{"a shorter list", `{a: [1, 2]}`, `{a: [1]}`, []string{"/a"}},
		{"an item, in another order", `{a: [{name: x, v: 1}, {name: y, v: 1}]}`, `{a: [{name: y, v: 2}, {name: x, v: 1}]}`, []string{"/a/1/v"}},
		{"items of one name", `{a: [{name: x, v: 1}, {name: x, v: 2}]}`, `{a: [{name: x, v: 1}, {name: x, v: 2}]}`, nil},
		{"one of several items of one name", `{a: [{name: x, v: 1}, {name: x, v: 2}]}`, `{a: [{name: x, v: 1}, {name: x, v: 3}]}`, []string{"/a/1/v"}},
		{"characters with a meaning", `{a/b: 1, "c~d": 1}`, `{}`, []string{"/a~1b", "/c~0d"}},
	}
	fieldsOf := func(text string) (content map[string]any) {
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Differences(fieldsOf(test.desired), fieldsOf(test.live))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// managed returns an entry of managedFields with a time in Unix seconds.
func managed(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string, at int64) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields), Time: &metav1.Time{Time: time.Unix(at, 0)},
	}
}

func TestLastWriter(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	ours := managed("ours", apply, "", `{"f:data":{"f:key":{}}}`, 10)
	tests := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"nobody":                     {[]metav1.ManagedFieldsEntry{ours}, ""},
		"later":                      {[]metav1.ManagedFieldsEntry{ours, managed("injector", update, "", "{}", 12)}, "injector"},
		"in the same second":         {[]metav1.ManagedFieldsEntry{ours, managed("injector", update, "", "{}", 10)}, "injector"},
		"before the apply":           {[]metav1.ManagedFieldsEntry{ours, managed("person", update, "", "{}", 9)}, ""},
		"the last of two":            {[]metav1.ManagedFieldsEntry{managed("a", apply, "", "{}", 12), ours, managed("b", update, "", "{}", 11)}, "a"},
		"two in a second":            {[]metav1.ManagedFieldsEntry{managed("b", apply, "", "{}", 12), ours, managed("a", update, "", "{}", 12)}, "b"},
		"through the scale":          {[]metav1.ManagedFieldsEntry{ours, managed("hpa", update, "scale", "{}", 12)}, "hpa"},
		"the status":                 {[]metav1.ManagedFieldsEntry{ours, managed("kubelet", update, "status", "{}", 12)}, ""},
		"the manager by update":      {[]metav1.ManagedFieldsEntry{ours, managed("ours", update, "", "{}", 12)}, ""},
		"the manager owns no fields": {[]metav1.ManagedFieldsEntry{managed("a", apply, "", "{}", 1)}, "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := lastWriter(test.entries, "ours"); got != test.want {
				t.Errorf("writer = %q, want %q", got, test.want)
			}
		})
	}
}

func TestLossOf(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	whole := `{"f:data":{"f:a":{},"f:b":{}}}`
	tests := map[string]struct {
		kind, live string
		entries    []metav1.ManagedFieldsEntry
		fields     []string
		managers   []string
	}{
		"a changed field": {
			"ConfigMap", `{a: theirs, b: ours}`,
			[]metav1.ManagedFieldsEntry{managed("ours", apply, "", `{"f:data":{"f:b":{}}}`, 1), managed("injector", update, "", `{"f:data":{"f:a":{}}}`, 2)},
			[]string{"/data/a"},
			[]string{"injector"},
		},
		"beside a field of another client": {
			"ConfigMap", `{a: theirs, b: ours, c: extra}`,
			[]metav1.ManagedFieldsEntry{
				managed("ours", apply, "", `{"f:data":{"f:b":{}}}`, 1), managed("injector", update, "", `{"f:data":{"f:a":{}}}`, 2),
				managed("other", update, "", `{"f:data":{".":{},"f:c":{}}}`, 3),
			},
			[]string{"/data/a"},
			[]string{"injector"},
		},
		"a removed field": {
			"ConfigMap", `{b: ours}`,
			[]metav1.ManagedFieldsEntry{managed("ours", apply, "", `{"f:data":{"f:b":{}}}`, 1), managed("remover", update, "", `{"f:metadata":{}}`, 2)},
			[]string{"/data/a"},
			[]string{"remover"},
		},
		"a key of a Secret": {
			"Secret", `{a: theirs, b: ours}`,
			[]metav1.ManagedFieldsEntry{managed("ours", apply, "", `{"f:data":{"f:b":{}}}`, 1), managed("injector", update, "", `{"f:data":{"f:a":{}}}`, 2)},
			[]string{"/data"},
			[]string{"injector"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			side := func(data string, entries []metav1.ManagedFieldsEntry) *unstructured.Unstructured {
				o := object(t, "{apiVersion: v1, kind: "+test.kind+", metadata: {name: a}, data: "+data+"}")
				o.SetManagedFields(entries)
				return o
			}
			live := side(test.live, test.entries)
			applied := side(`{a: ours, b: ours}`, []metav1.ManagedFieldsEntry{managed("ours", apply, "", whole, 3)})
			if test.entries[len(test.entries)-1].Manager == "other" {
				applied = side(`{a: ours, b: ours, c: extra}`, applied.GetManagedFields())
			}

			loss, err := LossOf(applied, live, "ours")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.fields, loss.Fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.managers, loss.Managers); diff != "" {
				t.Errorf("managers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNameable(t *testing.T) {
	fields := []string{"/data/password", "/data/user", "/metadata/labels/a"}
	if diff := cmp.Diff([]string{"/data", "/metadata/labels/a"}, Nameable(schema.GroupKind{Kind: "Secret"}, fields)); diff != "" {
		t.Errorf("of a Secret (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fields, Nameable(schema.GroupKind{Kind: "ConfigMap"}, fields)); diff != "" {
		t.Errorf("of a ConfigMap (-want +got):\n%s", diff)
	}
}
