// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func invalid(causes ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", causes)
}

func TestCollisionsOf(t *testing.T) {
	ports := field.NewPath("spec", "ports")
	mounts := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("volumeMounts")
	variables, volumes := field.NewPath("spec", "containers").Index(0).Child("env"), field.NewPath("spec", "volumes")
	tests := map[string]struct {
		err  error
		want []string
		// alternatives are the lists with two alternatives.
		alternatives []string
	}{
		"nil":              {err: nil},
		"no answer":        {err: errors.New("connection refused")},
		"another answer":   {err: apierrors.NewBadRequest("no")},
		"no duplicate":     {err: invalid(field.Required(ports.Index(1).Child("port"), ""))},
		"a name, no list":  {err: invalid(field.Required(field.NewPath("metadata", "name"), ""))},
		"without names":    {err: invalid(field.Required(ports.Index(0).Child("name"), ""), field.Required(ports.Index(1).Child("name"), "")), want: []string{"spec.ports"}},
		"not in a list":    {err: invalid(field.Duplicate(field.NewPath("spec", "name"), "a"))},
		"one":              {err: invalid(field.Duplicate(ports.Index(1).Child("name"), "http")), want: []string{"spec.ports"}},
		"the same twice":   {err: invalid(field.Duplicate(ports.Index(1).Child("name"), "a"), field.Duplicate(ports.Index(2).Child("name"), "b")), want: []string{"spec.ports"}},
		"an item itself":   {err: invalid(field.Duplicate(ports.Index(1), "http")), want: []string{"spec.ports"}},
		"a list in a list": {err: invalid(field.Duplicate(mounts.Index(2).Child("mountPath"), "/a")), want: []string{"spec.template.spec.containers[0].volumeMounts"}},
		"among others": {
			err:  invalid(field.Required(field.NewPath("spec"), ""), field.Duplicate(mounts.Index(2), "/a"), field.Duplicate(ports.Index(1), "b")),
			want: []string{"spec.ports", "spec.template.spec.containers[0].volumeMounts"},
		},
		"wrapped":                     {err: fmt.Errorf("refused: %w", invalid(field.Duplicate(ports.Index(1), "http"))), want: []string{"spec.ports"}},
		"a value beside a reference":  {err: invalid(field.Invalid(variables.Index(0).Child("valueFrom"), "", "")), alternatives: []string{"spec.containers[0].env"}},
		"an invalid name of a volume": {err: invalid(field.Invalid(volumes.Index(0).Child("name"), "", ""))},
		"two sources of a volume":     {err: invalid(field.Forbidden(volumes.Index(1).Child("configMap"), "")), alternatives: []string{"spec.volumes"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := Collisions{Duplicates: tc.want, Alternatives: tc.alternatives}
			if diff := cmp.Diff(want, CollisionsOf(tc.err), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("lists (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	const (
		live = `{spec: {ports: [{name: b}, {name: a}], containers: [{name: sidecar}, {name: web, ports: [1, 2]}, {image: x, ports: [3]}]}}`
		ours = `{spec: {ports: [{name: a}], containers: [{name: web, ports: [1]}], text: a}}`
	)
	tests := map[string]struct {
		path    string
		pointer string
		list    []any
		ok      bool
	}{
		"a list":                      {"spec.ports", "/spec/ports", []any{map[string]any{"name": "a"}}, true},
		"in an item of another place": {"spec.containers[1].ports", "/spec/containers/1/ports", []any{1.0}, true},
		"in an item that is theirs":   {"spec.containers[0].ports", "", nil, false},
		"in an item without a name":   {"spec.containers[2].ports", "", nil, false},
		"beyond the end":              {"spec.containers[3].ports", "", nil, false},
		"of no number":                {"spec.containers[x].ports", "", nil, false},
		"an index into a text":        {"spec.text[0].ports", "", nil, false},
		"below a text":                {"spec.text.ports", "", nil, false},
		"not ours":                    {"spec.none", "", nil, false},
		"not a list":                  {"spec", "", nil, false},
	}
	var liveObject, ourObject map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(live), &liveObject), yaml.Unmarshal([]byte(ours), &ourObject)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pointer, _, list, ok := locate(liveObject, ourObject, tc.path)
			if ok != tc.ok || ok && pointer != tc.pointer {
				t.Fatalf("locate = %q, %t, want %q, %t", pointer, ok, tc.pointer, tc.ok)
			}
			if diff := cmp.Diff(tc.list, list); ok && diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestoreIsBoundToTheObject(t *testing.T) {
	object := func(metadata map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": map[string]any{"ports": []any{}}}}
	}
	tests := map[string]struct {
		live map[string]any
		want string
	}{
		"with a generation":    {map[string]any{"uid": "u", "resourceVersion": "7", "generation": int64(1)}, `"/metadata/generation","value":1}`},
		"without a generation": {map[string]any{"uid": "u", "resourceVersion": "7"}, `"/metadata/resourceVersion","value":"7"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			patch, err := Collisions{Duplicates: []string{"spec.ports"}}.Restore(object(test.live), object(nil))

			want := `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":` + test.want +
				`,{"op":"replace","path":"/spec/ports","value":[]}]`
			if err != nil || string(patch) != want {
				t.Errorf("got %s, error %v, want %s", patch, err, want)
			}
		})
	}
}

// TestRestoreAlternatives: only items with another alternative than the desired item are replaced.
func TestRestoreAlternatives(t *testing.T) {
	object := func(env string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("metadata: {uid: u}\nspec: {containers: [{name: web, env: "+env+"}]}"), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	const desired = "[{name: A, valueFrom: {fieldRef: {fieldPath: a}}}, {name: B, value: b}]"
	tests := map[string]struct{ live, want string }{
		"another alternative, after others": {
			"[{name: X, value: x}, {name: B, value: b}, {name: A, value: a}]",
			`,{"op":"replace","path":"/spec/containers/0/env/2","value":{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"a"}}}}]`,
		},
		"the same alternative": {"[{name: A, valueFrom: {fieldRef: {fieldPath: b}}}]", ""},
		"no list":              {"null", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			patch, err := Collisions{Alternatives: []string{"spec.containers[0].env"}}.Restore(object(test.live), object(desired))

			if err != nil || !strings.HasSuffix(string(patch), test.want) || test.want == "" && patch != nil {
				t.Errorf("got %s, error %v, want %s", patch, err, test.want)
			}
		})
	}
}
