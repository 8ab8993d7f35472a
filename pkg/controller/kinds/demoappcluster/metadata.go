// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// setMetadata sets the labels and annotations of desired on current. It removes labels and
// annotations that manager set before and that desired no longer has, and keeps the rest. The
// managed fields of current show which client set a field.
func setMetadata(current, desired metav1.Object, manager string) error {
	owned, err := ownedBy(current, manager)
	if err != nil {
		return err
	}
	current.SetLabels(merge(owned, "labels", current.GetLabels(), desired.GetLabels()))
	current.SetAnnotations(merge(owned, "annotations", current.GetAnnotations(), desired.GetAnnotations()))
	return nil
}

func merge(owned *fieldpath.Set, field string, current, desired map[string]string) map[string]string {
	merged := make(map[string]string, len(current)+len(desired))
	for key, value := range current {
		if !owned.Has(fieldpath.MakePathOrDie("metadata", field, key)) {
			merged[key] = value
		}
	}
	for key, value := range desired {
		merged[key] = value
	}
	return merged
}

// ownedBy returns the fields of object that manager set, without fields of subresources.
func ownedBy(object metav1.Object, manager string) (*fieldpath.Set, error) {
	owned := fieldpath.NewSet()
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != manager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", object.GetName(), err)
		}
		owned = owned.Union(fields)
	}
	return owned, nil
}
