// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// normalize returns a live object without the fields that the cluster sets anew for each object,
// and without the fields of controllers.
func normalize(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	managed := object.GetManagedFields()
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetCreationTimestamp(metav1.Time{})
	object.SetManagedFields(nil)
	object.SetSelfLink("")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "endpoints.kubernetes.io/last-change-trigger-time")
	unstructured.RemoveNestedField(object.Object, "status")
	for _, assigned := range assignedFields {
		if assigned.kind == object.GetKind() {
			mask(object.Object, assigned.path...)
		}
	}
	object.Object["managed"] = managers(managed)
	return object.Object
}

// assignedFields are the fields of a spec that the API server or a controller sets.
var assignedFields = []struct {
	kind string
	path []string
}{
	{"Service", []string{"spec", "clusterIP"}},
	{"Service", []string{"spec", "clusterIPs"}},
	{"Service", []string{"spec", "healthCheckNodePort"}},
	{"Service", []string{"spec", "ports", "*", "nodePort"}},
	{"Pod", []string{"spec", "nodeName"}},
	{"Pod", []string{"spec", "volumes"}},
	{"Pod", []string{"spec", "containers", "*", "volumeMounts"}},
}

// mask replaces the value of a field that is set and not empty; "*" stands for each item of a list.
func mask(value any, path ...string) {
	if path[0] == "*" {
		items, _ := value.([]any)
		for _, item := range items {
			mask(item, path[1:]...)
		}
		return
	}
	fields, ok := value.(map[string]any)
	if !ok || fields[path[0]] == nil || fields[path[0]] == "None" {
		return
	}
	if len(path) == 1 {
		fields[path[0]] = "assigned"
		return
	}
	mask(fields[path[0]], path[1:]...)
}

// managers returns the owners of fields. Controllers are left out, since the time of their writes
// is not fixed.
func managers(managed []metav1.ManagedFieldsEntry) []any {
	managed = slices.DeleteFunc(slices.Clone(managed), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource != "" || entry.Manager == "kube-controller-manager" || entry.Manager == "kube-scheduler" ||
			entry.Manager == "kwok"
	})
	slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation))
	})
	owned := make([]any, 0, len(managed))
	for _, entry := range managed {
		var fields any
		if entry.FieldsV1 != nil {
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
				fields = err.Error()
			}
		}
		owned = append(owned, map[string]any{
			"manager": entry.Manager, "operation": string(entry.Operation), "apiVersion": entry.APIVersion, "fields": fields,
		})
	}
	return owned
}
