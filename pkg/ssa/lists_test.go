// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func invalid(causes ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", causes)
}

func TestDuplicateLists(t *testing.T) {
	ports := field.NewPath("spec", "ports")
	mounts := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("volumeMounts")
	tests := map[string]struct {
		err  error
		want []string
	}{
		"nil":              {nil, nil},
		"no answer":        {errors.New("connection refused"), nil},
		"another answer":   {apierrors.NewBadRequest("no"), nil},
		"no duplicate":     {invalid(field.Required(ports.Index(1).Child("port"), "")), nil},
		"a name, no list":  {invalid(field.Required(field.NewPath("metadata", "name"), "")), nil},
		"without names":    {invalid(field.Required(ports.Index(0).Child("name"), ""), field.Required(ports.Index(1).Child("name"), "")), []string{"spec.ports"}},
		"not in a list":    {invalid(field.Duplicate(field.NewPath("spec", "name"), "a")), nil},
		"one":              {invalid(field.Duplicate(ports.Index(1).Child("name"), "http")), []string{"spec.ports"}},
		"the same twice":   {invalid(field.Duplicate(ports.Index(1).Child("name"), "a"), field.Duplicate(ports.Index(2).Child("name"), "b")), []string{"spec.ports"}},
		"an item itself":   {invalid(field.Duplicate(ports.Index(1), "http")), []string{"spec.ports"}},
		"a list in a list": {invalid(field.Duplicate(mounts.Index(2).Child("mountPath"), "/a")), []string{"spec.template.spec.containers[0].volumeMounts"}},
		"among others": {
			invalid(field.Required(field.NewPath("spec"), ""), field.Duplicate(mounts.Index(2), "/a"), field.Duplicate(ports.Index(1), "b")),
			[]string{"spec.ports", "spec.template.spec.containers[0].volumeMounts"},
		},
		"wrapped": {fmt.Errorf("refused: %w", invalid(field.Duplicate(ports.Index(1), "http"))), []string{"spec.ports"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, tc.want...), append([]string{}, DuplicateLists(tc.err)...)); diff != "" {
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
		list    any
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
			pointer, list, ok := locate(liveObject, ourObject, tc.path)
			if ok != tc.ok || ok && pointer != tc.pointer {
				t.Fatalf("locate = %q, %t, want %q, %t", pointer, ok, tc.pointer, tc.ok)
			}
			if diff := cmp.Diff(tc.list, list); ok && diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestoreListsIsBoundToTheObject(t *testing.T) {
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
			patch, err := RestoreLists(object(test.live), object(nil), []string{"spec.ports"})

			want := `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":` + test.want +
				`,{"op":"replace","path":"/spec/ports","value":[]}]`
			if err != nil || string(patch) != want {
				t.Errorf("got %s, error %v, want %s", patch, err, want)
			}
		})
	}
}
