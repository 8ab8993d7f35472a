// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Resource is a custom resource with a release. The unstructured content has neither status
// nor managedFields.
type Resource struct {
	unstructured.Unstructured

	Status Status
}

// Status is the part of a custom resource's status that its controller writes.
type Status struct {
	releasev1alpha1.ReleaseStatus

	// Manifest is status.deployedRelease.manifest; empty if it is not written.
	Manifest string
	// Keyed says that the conditions of the kind are a map by type, so that each field
	// manager applies its own. Otherwise the conditions of others are applied with ours,
	// because the API server would remove them.
	Keyed bool
}

// New converts an object of the API server. A status that cannot be read counts as
// empty; the next write replaces it. A deployed release without a revision counts as none,
// because an upstream operator wrote it.
func New(object *unstructured.Unstructured) *Resource {
	r := &Resource{Unstructured: *object}
	r.Status.Keyed = slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:conditions":{"k:{`))
	})
	if written, ok, _ := unstructured.NestedMap(object.Object, "status"); ok {
		r.Status.read(written)
	}
	if deployed := r.Status.DeployedRelease; deployed != nil && deployed.Revision == 0 {
		r.Status.DeployedRelease, r.Status.Manifest = nil, ""
	}
	r.Object = make(map[string]any, len(object.Object))
	for key, value := range object.Object {
		if key != "status" {
			r.Object[key] = value
		}
	}
	r.SetManagedFields(nil)
	return r
}

func (s *Status) read(written map[string]any) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written, &s.ReleaseStatus); err != nil {
		s.ReleaseStatus = releasev1alpha1.ReleaseStatus{}
	}
	s.Manifest, _, _ = unstructured.NestedString(written, "deployedRelease", "manifest")
}

// MarshalJSON implements json.Marshaler. It encodes the fields to apply.
func (s Status) MarshalJSON() ([]byte, error) {
	applied := s.ReleaseStatus
	if s.Keyed {
		applied.Conditions = slices.DeleteFunc(slices.Clone(applied.Conditions), func(c metav1.Condition) bool { return !slices.Contains(OwnConditions, c.Type) })
	}
	if s.Manifest == "" || s.DeployedRelease == nil {
		return json.Marshal(applied)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&applied)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	if err := unstructured.SetNestedField(fields, s.Manifest, "deployedRelease", "manifest"); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// DeepCopy returns a copy that shares nothing with the original.
func (r *Resource) DeepCopy() *Resource {
	copied := &Resource{Unstructured: *r.Unstructured.DeepCopy(), Status: r.Status}
	r.Status.ReleaseStatus.DeepCopyInto(&copied.Status.ReleaseStatus)
	return copied
}

// DeepCopyObject implements runtime.Object.
func (r *Resource) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// transform converts the objects of an informer.
func transform(object any) (any, error) {
	if whole, ok := object.(*unstructured.Unstructured); ok {
		return New(whole), nil
	}
	return object, nil // A tombstone, or converted already.
}

// Informers returns informers of a resource by watched namespace; no namespaces mean all.
// Their objects are of type *[Resource].
func Informers(
	client dynamic.Interface, resource schema.GroupVersionResource, namespaces []string, selector labels.Selector, indexers cache.Indexers,
) (map[string]cache.SharedIndexInformer, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, namespace := range namespaces {
		informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, 0, indexers, func(options *metav1.ListOptions) {
			options.LabelSelector = selector.String()
		}).Informer()
		if err := informer.SetTransform(transform); err != nil {
			return nil, err
		}
		informers[namespace] = informer
	}
	return informers, nil
}
