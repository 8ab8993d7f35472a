// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatches(t *testing.T) {
	tests := map[string]struct {
		recorded, got string
		want          bool
	}{
		"equal":                                 {"a@5", "a@5", true},
		"other fields":                          {"a@5", "b@5", false},
		"another time":                          {"a@5", "a@6", false},
		"no time any more":                      {"a@5", "a", false},
		"recorded without a time":               {"a", "a@6", true},
		"recorded without a time, other fields": {"a", "b@6", false},
		"owns nothing":                          {"a", "", false},
		"nothing recorded":                      {"", "a@6", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Matches(tc.recorded, tc.got); got != tc.want {
				t.Errorf("Matches(%q, %q) = %t", tc.recorded, tc.got, got)
			}
		})
	}
}

// TestMayHide: a change may be hidden only if another client may have applied it under the
// manager's name in the second of the last apply.
func TestMayHide(t *testing.T) {
	entry := func(manager, subresource string, second int64) metav1.ManagedFieldsEntry {
		operation := metav1.ManagedFieldsOperationUpdate
		if manager == "ours" {
			operation = metav1.ManagedFieldsOperationApply
		}
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
			Time: &metav1.Time{Time: time.Unix(second, 0)},
		}
	}
	version := func(version string, generation int64, entries ...metav1.ManagedFieldsEntry) *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{}
		object.ResourceVersion, object.Generation = version, generation
		object.ManagedFields = append([]metav1.ManagedFieldsEntry{entry("ours", "", 5)}, entries...)
		return object
	}
	labeled, counted, leaving := version("2", 1), version("2", 1), version("2", 2)
	labeled.Labels = map[string]string{"app": "theirs"}
	counted.Annotations = map[string]string{"deployment.kubernetes.io/revision": "3"}
	leaving.DeletionTimestamp = &metav1.Time{}
	tests := map[string]struct {
		was, is *metav1.PartialObjectMetadata
		want    bool
	}{
		"no generation, another version":           {version("1", 0), version("2", 0), true},
		"no generation, the same version":          {version("1", 0), version("1", 0), false},
		"no generation, another manager's write":   {version("1", 0), version("2", 0, entry("kubectl", "", 5)), false},
		"no generation, its status is written":     {version("1", 0), version("2", 0, entry("controller", "status", 5)), false},
		"another generation":                       {version("1", 1), version("2", 2), true},
		"another label":                            {version("1", 1), labeled, true},
		"another revision of a Deployment":         {version("1", 1), counted, false},
		"the same generation":                      {version("1", 1), version("2", 1), false},
		"another manager wrote at the same time":   {version("1", 1, entry("kubectl", "", 5)), version("2", 2, entry("kubectl", "", 5)), true},
		"another manager wrote in a later second":  {version("1", 1, entry("kubectl", "", 6)), version("2", 2, entry("kubectl", "", 6)), false},
		"another apply under the name, one second": {version("1", 1), withTime(version("2", 2), 6), false},
		"being deleted":                            {version("1", 1), leaving, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			was, is := TraceOf(tc.was, tc.was.ManagedFields, "ours"), TraceOf(tc.is, tc.is.ManagedFields, "ours")
			if got := was.MayHide(is); got != tc.want {
				t.Errorf("MayHide = %t, want %t", got, tc.want)
			}
		})
	}
}

// withTime sets the time of the first entry.
func withTime(object *metav1.PartialObjectMetadata, second int64) *metav1.PartialObjectMetadata {
	object.ManagedFields[0].Time = &metav1.Time{Time: time.Unix(second, 0)}
	return object
}
