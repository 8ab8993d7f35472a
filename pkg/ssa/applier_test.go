// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/expect"
)

// TestEndUpdates: the client that wrote a copy of an object owns no desired field by update. All other
// entries stay.
func TestEndUpdates(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const desired = `{"f:data":{"f:key":{}},"f:metadata":{"f:labels":{"f:app":{}}}}`
	own := entry("operator", metav1.ManagedFieldsOperationApply, "", desired)
	tests := map[string]struct {
		others, kept []metav1.ManagedFieldsEntry
	}{
		"a copy": {
			[]metav1.ManagedFieldsEntry{entry("velero-server", metav1.ManagedFieldsOperationUpdate, "", `{"f:data":{".":{},"f:former":{},"f:key":{}}}`)}, nil,
		},
		"managedFields that were reset": {
			[]metav1.ManagedFieldsEntry{entry("before-first-apply", metav1.ManagedFieldsOperationUpdate, "", desired)}, nil,
		},
		"other fields": {
			[]metav1.ManagedFieldsEntry{entry("reloader", metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:annotations":{"f:hash":{}}}}`)},
			[]metav1.ManagedFieldsEntry{entry("reloader", metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:annotations":{"f:hash":{}}}}`)},
		},
		"an apply of a user, and a subresource": {
			[]metav1.ManagedFieldsEntry{
				entry("kubectl", metav1.ManagedFieldsOperationApply, "", desired), entry("hpa", metav1.ManagedFieldsOperationUpdate, "scale", desired),
			},
			[]metav1.ManagedFieldsEntry{
				entry("kubectl", metav1.ManagedFieldsOperationApply, "", desired), entry("hpa", metav1.ManagedFieldsOperationUpdate, "scale", desired),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "7", ManagedFields: append([]metav1.ManagedFieldsEntry{own}, test.others...),
			}}

			patch, err := Applier{Manager: "operator"}.endUpdates(live)

			expect.NoError(t, err)
			if len(test.kept) == len(test.others) {
				expect.Equal(t, "patch", "", string(patch))
				return
			}
			var operations []struct {
				Path  string          `json:"path"`
				Value json.RawMessage `json:"value"`
			}
			expect.NoError(t, json.Unmarshal(patch, &operations))
			var kept []metav1.ManagedFieldsEntry
			expect.NoError(t, json.Unmarshal(operations[0].Value, &kept))
			expect.Equal(t, "entries", append([]metav1.ManagedFieldsEntry{own}, test.kept...), kept)
			expect.Equal(t, "version", `"7"`, string(operations[1].Value))
		})
	}
}

func TestOver(t *testing.T) {
	expect.Equal(t, "an object of the manager", Force, Over("digest@1"))
	expect.Equal(t, "a copy", Claim, Over(""))
}
