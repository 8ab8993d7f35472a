// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Establishes reports whether the API server serves a version of the kind that a
// CustomResourceDefinition defines, or will do so in a moment. A definition that is being
// deleted does not count, because all objects of its kind are deleted with it.
func Establishes(crd *unstructured.Unstructured, version string) bool {
	if crd == nil || crd.GetDeletionTimestamp() != nil {
		return false
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &definition); err != nil {
		return false
	}
	for _, condition := range definition.Status.Conditions {
		if condition.Type != "Established" || condition.Status != metav1.ConditionTrue {
			continue
		}
		for _, v := range definition.Spec.Versions {
			if v.Name == version && v.Served {
				return true
			}
		}
	}
	return false
}
