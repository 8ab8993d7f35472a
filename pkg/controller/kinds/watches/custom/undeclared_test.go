// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPatcherOmitsUndeclaredFields: a field that the schema of the CRD does not have is left out of
// the repeated patch and of all later ones.
func TestPatcherOmitsUndeclaredFields(t *testing.T) {
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
			server := &apiServer{errs: test.errs, object: map[string]any{"metadata": map[string]any{}}}
			patcher := server.patcher(t)

			_, err := patcher.Patch(t.Context(), "a", types.ApplyPatchType, []byte(status), metav1.PatchOptions{}, "status")
			if (err != nil) != (test.err != nil) || err != nil && !strings.Contains(err.Error(), test.err.Error()) {
				t.Fatalf("error is %v, want %v", err, test.err)
			}
			_, err = patcher.Patch(t.Context(), "a", types.ApplyPatchType, []byte(status), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}

			want := append(slices.Clone(test.patches), test.patches[len(test.patches)-1])
			if diff := cmp.Diff(want, server.patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatcherRepeatsNoRefusal: a refusal that repeats itself is returned.
func TestPatcherRepeatsNoRefusal(t *testing.T) {
	refused := errors.New(".status.history: field not declared in schema")
	server := &apiServer{errs: []error{refused, refused}}

	_, err := server.patcher(t).Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{}, "status")

	if err == nil || !strings.Contains(err.Error(), refused.Error()) || len(server.patches) != 2 {
		t.Errorf("error is %v after %d patches", err, len(server.patches))
	}
}
