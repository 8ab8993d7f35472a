// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// refusals is a client that answers each patch with the next error, and keeps the patches.
type refusals struct {
	dynamic.ResourceInterface

	errs    []error
	patches []string
}

// Patch implements dynamic.ResourceInterface.
func (r *refusals) Patch(
	_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	r.patches = append(r.patches, string(data))
	if len(r.errs) > 0 {
		err := r.errs[0]
		r.errs = r.errs[1:]
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}

// TestPatcherLeavesOutUndeclaredFields: a field that the schema of the CRD does not have is left out of the repeated patch
// and of all later ones.
func TestPatcherLeavesOutUndeclaredFields(t *testing.T) {
	const status = `{"status":{"conditions":[{"observedGeneration":1,"type":"Ready"}],"history":[],"note":"a"}}`
	undeclared := func(path string) error {
		return errors.New("failed to create typed patch object (default/a; v1, Kind=A): " + path + ": field not declared in schema")
	}
	other := errors.New("conflict")
	tests := map[string]struct {
		errs    []error
		patches []string
		err     error
	}{
		"none":          {patches: []string{status}},
		"another error": {errs: []error{other}, patches: []string{status}, err: other},
		"a field, and one of a list": {
			errs: []error{undeclared(".status.history"), undeclared(`.status.conditions[type="Ready"].observedGeneration`)},
			patches: []string{
				status, `{"status":{"conditions":[{"observedGeneration":1,"type":"Ready"}],"note":"a"}}`,
				`{"status":{"conditions":[{"type":"Ready"}],"note":"a"}}`,
			},
		},
		"the status": {errs: []error{undeclared(".status")}, patches: []string{status, `{}`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := &refusals{errs: test.errs}
			patcher := Patcher{client, &Undeclared{}}

			_, err := patcher.Patch(t.Context(), "a", types.ApplyPatchType, []byte(status), metav1.PatchOptions{}, "status")
			if !errors.Is(err, test.err) {
				t.Fatalf("error is %v, want %v", err, test.err)
			}
			_, err = patcher.Patch(t.Context(), "a", types.ApplyPatchType, []byte(status), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}

			want := append(slices.Clone(test.patches), test.patches[len(test.patches)-1])
			if diff := cmp.Diff(want, client.patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatcherRepeatsNoRefusal: a refusal that repeats itself is returned.
func TestPatcherRepeatsNoRefusal(t *testing.T) {
	refused := errors.New(".status.history: field not declared in schema")
	client := &refusals{errs: []error{refused, refused}}

	_, err := Patcher{client, &Undeclared{}}.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{}, "status")

	if !errors.Is(err, refused) || len(client.patches) != 2 {
		t.Errorf("error is %v after %d patches", err, len(client.patches))
	}
}
