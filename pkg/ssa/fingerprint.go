// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Fingerprint is the digest of the fields that a manager owns by server-side apply, as
// the API server keeps them in managedFields. The server drops a field from the entry as
// soon as others change or remove its value. It leaves the entry alone when others add
// fields of their own. So equal fingerprints mean that no field of the manager changed.
// The fingerprint is empty when the manager owns nothing.
func Fingerprint(managed []metav1.ManagedFieldsEntry, manager string) string {
	owned := OwnedFields(managed, manager)
	if owned == nil {
		return ""
	}
	sum := sha256.Sum256(owned.GetRawBytes())
	return hex.EncodeToString(sum[:16])
}

// OwnedFields returns the fields that a manager owns by server-side apply, without those
// of subresources; nil when there are none.
func OwnedFields(managed []metav1.ManagedFieldsEntry, manager string) *metav1.FieldsV1 {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return entry.FieldsV1
		}
	}
	return nil
}

// ManagedFields returns the managedFields that fingerprints need. GetManagedFields of an
// unstructured object takes several times as long.
func ManagedFields(object metav1.Object) []metav1.ManagedFieldsEntry {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object.GetManagedFields()
	}
	listed, _, _ := unstructured.NestedFieldNoCopy(whole.Object, "metadata", "managedFields")
	items, _ := listed.([]any)
	managed := make([]metav1.ManagedFieldsEntry, 0, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		owned, _ := fields["fieldsV1"].(map[string]any)
		if subresource, _ := fields["subresource"].(string); owned == nil || subresource != "" {
			continue
		}
		raw, err := json.Marshal(owned)
		if err != nil {
			continue // An object from JSON can be encoded.
		}
		entry := metav1.ManagedFieldsEntry{FieldsV1: &metav1.FieldsV1{}}
		entry.FieldsV1.SetRawBytes(inServerOrder(raw))
		entry.Manager, _ = fields["manager"].(string)
		operation, _ := fields["operation"].(string)
		entry.Operation = metav1.ManagedFieldsOperationType(operation)
		if at, _ := fields["time"].(string); at != "" {
			if parsed, err := time.Parse(time.RFC3339, at); err == nil {
				entry.Time = &metav1.Time{Time: parsed}
			}
		}
		managed = append(managed, entry)
	}
	return managed
}

// inServerOrder returns a set of fields as the API server encodes it. The API server orders
// the keys of lists by value, 80 before 443, and not by text.
func inServerOrder(fields []byte) []byte {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(fields)); err != nil {
		return fields
	}
	ordered, err := set.ToJSON()
	if err != nil {
		return fields
	}
	return ordered
}
