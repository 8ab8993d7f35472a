// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Fingerprint identifies the state in which a manager left an object: a digest of the fields
// that it owns by server-side apply, as the API server keeps them in managedFields, and the
// time of its last apply that changed the object.
//
// The API server drops a field from the manager's entry as soon as another manager changes or
// removes its value. It does not change the entry when other managers add fields. Any client may
// apply under the manager's name. The API server then moves the time of the entry, unless nothing
// changes (k8s.io/apimachinery/pkg/util/managedfields). So equal fingerprints mean that no field of
// the manager changed, except within the second of the last apply, see [Trace.MayHide].
//
// The fingerprint is empty when the manager owns nothing, and has no time when the entry has
// none.
func Fingerprint(managed []metav1.ManagedFieldsEntry, manager string) string {
	entry := ownedBy(managed, manager)
	if entry == nil || entry.FieldsV1 == nil {
		return ""
	}
	sum := sha256.Sum256(entry.FieldsV1.GetRawBytes())
	fields := hex.EncodeToString(sum[:16])
	if entry.Time == nil {
		return fields
	}
	return fields + timeMark + strconv.FormatInt(entry.Time.Unix(), 10)
}

// timeMark precedes the time in a fingerprint.
const timeMark = "@"

// Matches reports whether the fingerprint got equals the recorded fingerprint. Earlier versions of
// the operator recorded fingerprints without a time. Such a record matches any time: it must not
// make a new version apply all objects again.
func Matches(recorded, got string) bool {
	if strings.Contains(recorded, timeMark) {
		return recorded == got
	}
	fields, _, _ := strings.Cut(got, timeMark)
	return recorded == fields
}

// OwnedFields returns the fields that a manager owns by server-side apply, without fields of
// subresources. It returns nil without such fields.
func OwnedFields(managed []metav1.ManagedFieldsEntry, manager string) *metav1.FieldsV1 {
	if entry := ownedBy(managed, manager); entry != nil {
		return entry.FieldsV1
	}
	return nil
}

// ownedBy returns the entry of a manager's applies, or nil.
func ownedBy(managed []metav1.ManagedFieldsEntry, manager string) *metav1.ManagedFieldsEntry {
	i := slices.IndexFunc(managed, func(entry metav1.ManagedFieldsEntry) bool { return isApply(&entry, manager) })
	if i < 0 {
		return nil
	}
	return &managed[i]
}

func isApply(entry *metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// ManagedFields returns the managedFields that fingerprints and traces need: the entries of
// subresources have no fields if the object is unstructured. GetManagedFields of an unstructured
// object takes several times as long.
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
		if owned == nil {
			continue
		}
		var entry metav1.ManagedFieldsEntry
		if entry.Subresource, _ = fields["subresource"].(string); entry.Subresource == "" {
			raw, err := json.Marshal(owned)
			if err != nil {
				continue // An object from JSON can be encoded.
			}
			entry.FieldsV1 = &metav1.FieldsV1{}
			entry.FieldsV1.SetRawBytes(inServerOrder(raw))
		}
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

// inServerOrder returns a set of fields in the API server's encoding. The API server orders the
// keys of lists by value, 80 before 443, and not by text.
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
