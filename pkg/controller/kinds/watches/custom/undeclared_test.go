// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unexplained is an answer 500 without a reason.
var unexplained = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "failed to create typed patch object",
}}

// TestPatcherOmitsUndeclaredFields: a field that the schema of the CRD does not have is left out of
// the repeated patch and of all later ones.
func TestPatcherOmitsUndeclaredFields(t *testing.T) {
	const status = `{"status":{"conditions":[{"observedGeneration":1,"type":"Ready"}],"history":[],"note":"a"}}`
	conflict := errors.New("conflict")
	tests := map[string]struct {
		undeclared []string
		err        error
		patches    []string
	}{
		"none":                   {patches: []string{status}},
		"another error":          {err: conflict, patches: []string{status}},
		"refused for all fields": {err: unexplained, patches: []string{status, status}},
		"a field, and one of a list": {
			undeclared: []string{"status.history", "status.conditions.observedGeneration"},
			patches:    []string{status, status, `{"status":{"conditions":[{"type":"Ready"}],"note":"a"}}`},
		},
		"the status": {undeclared: []string{"status"}, patches: []string{status, status, `{}`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{undeclared: test.undeclared, object: map[string]any{"metadata": map[string]any{}}}
			if test.err != nil {
				server.errs = []error{test.err}
			}
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
	server := &apiServer{errs: []error{unexplained, unexplained}}

	_, err := server.patcher(t).Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{}, "status")

	if err == nil || !strings.Contains(err.Error(), unexplained.Error()) || len(server.patches) != 2 {
		t.Errorf("error is %v after %d patches", err, len(server.patches))
	}
}
