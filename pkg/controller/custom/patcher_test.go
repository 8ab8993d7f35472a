// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// answers is a client that answers every patch with one object, and keeps the merge patches.
type answers struct {
	dynamic.ResourceInterface

	object map[string]any
	merges []string
}

// Patch implements dynamic.ResourceInterface.
func (a *answers) Patch(
	_ context.Context, _ string, patchType types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if patchType == types.MergePatchType {
		a.merges = append(a.merges, string(data))
	}
	return &unstructured.Unstructured{Object: a.object}, nil
}

// TestPatcherRemovesLeftovers: after a status is applied, what an upstream operator left in it is removed, with one request.
func TestPatcherRemovesLeftovers(t *testing.T) {
	const version = `{"metadata":{"resourceVersion":"7","uid":"1"},"status":`
	condition := func(name string) map[string]any { return map[string]any{"type": name, "status": "True"} }
	tests := map[string]struct {
		applied     string
		stored      map[string]any
		subresource string
		merge       string
	}{
		"nothing": {
			applied: `{"status": {"conditions": [{"type": "Ready"}]}}`,
			stored:  map[string]any{"conditions": []any{condition("Ready"), condition("Backed")}, "note": "of others"},
		},
		"manifest": {
			applied: `{"status": {"deployedRelease": {"name": "a"}}}`,
			stored:  map[string]any{"deployedRelease": map[string]any{"name": "a", "manifest": "kind: Secret"}},
			merge:   version + `{"deployedRelease":{"manifest":null}}}`,
		},
		"own manifest": {
			applied: `{"status": {"deployedRelease": {"manifest": "kind: Secret"}}}`,
			stored:  map[string]any{"deployedRelease": map[string]any{"manifest": "kind: Secret"}},
		},
		"conditions of a keyed list": {
			applied: `{"status": {"conditions": [{"type": "Ready"}]}}`,
			stored:  map[string]any{"conditions": []any{condition("ReleaseFailed"), condition("Ready"), condition("Backed"), condition("Paused")}},
			merge:   version + `{"conditions":[{"status":"True","type":"Ready"},{"status":"True","type":"Backed"}]}}`,
		},
		"another request": {
			applied:     `{"metadata": {}}`,
			stored:      map[string]any{"deployedRelease": map[string]any{"manifest": "kind: Secret"}},
			subresource: "scale",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := &answers{object: map[string]any{
				"metadata": map[string]any{"name": "a", "uid": "1", "resourceVersion": "7"}, "status": test.stored,
			}}
			subresource := test.subresource
			if subresource == "" {
				subresource = "status"
			}

			_, err := Patcher{client, &Undeclared{}}.Patch(t.Context(), "a", types.ApplyPatchType, []byte(test.applied), metav1.PatchOptions{}, subresource)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if test.merge != "" {
				want = []string{test.merge}
			}
			if diff := cmp.Diff(want, client.merges); diff != "" {
				t.Errorf("merge patches (-want +got):\n%s", diff)
			}
		})
	}
}
