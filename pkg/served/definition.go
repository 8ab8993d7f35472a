// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Definition is the part of a CustomResourceDefinition that says which versions of its kind the
// API server serves.
type Definition struct {
	metav1.ObjectMeta

	// versions are served, or will be in a moment.
	versions []string
}

// Serves reports whether the API server serves a version of the kind, or will do so in a moment. A
// definition that is nil or is being deleted serves none, because all objects of its kind are
// deleted with it.
func (d *Definition) Serves(version string) bool {
	return d != nil && d.DeletionTimestamp == nil && slices.Contains(d.versions, version)
}

// NewDefinitionInformer returns an informer of the [Definition] with this name. The metadata of a
// CRD does not contain the served versions. The schemas, which are most of a CRD, are not cached.
func NewDefinitionInformer(client dynamic.Interface, name string) (cache.SharedIndexInformer, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, Definitions, metav1.NamespaceAll, 0, cache.Indexers{},
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}).Informer()
	return informer, informer.SetTransform(func(object any) (any, error) {
		if whole, ok := object.(*unstructured.Unstructured); ok {
			return DefinitionOf(whole), nil
		}
		return object, nil
	})
}

// DefinitionOf reduces a CustomResourceDefinition. If it cannot be read, it serves no version.
func DefinitionOf(crd *unstructured.Unstructured) *Definition {
	kept := &Definition{ObjectMeta: metav1.ObjectMeta{
		Name: crd.GetName(), UID: crd.GetUID(), ResourceVersion: crd.GetResourceVersion(), DeletionTimestamp: crd.GetDeletionTimestamp(),
	}}
	var whole struct {
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
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &whole); err != nil {
		return kept
	}
	if !slices.ContainsFunc(whole.Status.Conditions, func(condition metav1.Condition) bool {
		return condition.Type == "Established" && condition.Status == metav1.ConditionTrue
	}) {
		return kept
	}
	for _, version := range whole.Spec.Versions {
		if version.Served {
			kept.versions = append(kept.versions, version.Name)
		}
	}
	return kept
}

// IsTerminating reports whether the CRD of a kind is being deleted or is gone. All objects of the kind
// are then deleted, too, although nobody decided on each of them. Discovery shows this some moments
// later than the objects, and needs no permission: a CRD that is being deleted allows no creation.
func IsTerminating(client discovery.ServerResourcesInterface, kind schema.GroupVersionKind) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether the CRD of %s is being deleted: %w", kind.GroupKind(), err)
	}
	return !slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool {
		return served.Kind == kind.Kind && slices.Contains(served.Verbs, "create")
	}), nil
}
