// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// clusterManagers are the field managers of the cluster's own controllers. Objects need the fields
// that these controllers add.
var clusterManagers = []string{
	"kube-apiserver", "kube-controller-manager", "clusterrole-aggregation-controller", "kube-scheduler", "kubelet",
	"cloud-controller-manager", "cluster-autoscaler",
}

// isForeign reports whether an entry has fields of a client that is neither the engine nor
// one of the cluster's controllers. Replicas that the engine handed over are no additions.
func isForeign(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager != manifest.FieldManager && entry.Manager != manifest.HandoverManager && entry.Subresource == "" && entry.FieldsV1 != nil &&
		!slices.Contains(clusterManagers, entry.Manager)
}

// Digest identifies the fields that other clients own in an object. It is empty if they own
// no fields.
func Digest(managed []metav1.ManagedFieldsEntry) string {
	hash := sha256.New()
	found := false
	for i := range managed {
		if entry := &managed[i]; isForeign(entry) {
			found = true
			fmt.Fprintf(hash, "%s\x00%s\x00", entry.Manager, entry.Operation)
			hash.Write(entry.FieldsV1.GetRawBytes())
		}
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// LastSet returns the time when other clients last set fields of an object, in Unix seconds. It
// is 0 if they own no fields.
func LastSet(managed []metav1.ManagedFieldsEntry) int64 {
	newest := int64(0)
	for i := range managed {
		if entry := &managed[i]; isForeign(entry) && entry.Time != nil {
			newest = max(newest, entry.Time.Unix())
		}
	}
	return newest
}

// Foreign returns the fields that only other clients own, without finalizers and owner
// references, because other controllers depend on these.
func Foreign(live *unstructured.Unstructured) (*fieldpath.Set, error) {
	foreign, err := owned(live.GetManagedFields(), isForeign)
	if err != nil {
		return nil, err
	}
	others, err := owned(live.GetManagedFields(), func(entry *metav1.ManagedFieldsEntry) bool { return !isForeign(entry) })
	if err != nil {
		return nil, err
	}
	return removable(foreign, others), nil
}

// removable returns the fields that can be removed without removing fields of other clients:
// leaves, and items of lists. A client that creates an object also owns its maps and lists as such,
// and other clients may own fields in them.
func removable(fields, others *fieldpath.Set) *fieldpath.Set {
	leaves, found := fields.Union(others).Leaves(), fieldpath.NewSet()
	fields.Difference(others).Iterate(func(path fieldpath.Path) {
		last := path[len(path)-1]
		isPart := last.FieldName != nil && !leaves.Has(path) || below(others, path)
		if path[0].FieldName == nil || isPart || isAgreement(path) {
			return
		}
		found.Insert(path.Copy())
	})
	return found
}

// below reports whether a set has fields below a path.
func below(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}

// isAgreement reports whether other controllers depend on the field, or it is in the status.
func isAgreement(path fieldpath.Path) bool {
	if *path[0].FieldName != "metadata" || len(path) < 2 || path[1].FieldName == nil {
		return *path[0].FieldName == "status"
	}
	return slices.Contains([]string{"finalizers", "ownerReferences"}, *path[1].FieldName)
}

// Paths returns the paths of the fields in their order.
func Paths(fields *fieldpath.Set) []fieldpath.Path {
	var paths []fieldpath.Path
	fields.Iterate(func(path fieldpath.Path) { paths = append(paths, path.Copy()) })
	return paths
}

// schemas has the schemas of the kinds that client-go knows. They are parsed at the first
// use, because that takes long.
var schemas = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

func typedObject(live *unstructured.Unstructured) (*smd.TypedValue, managedfields.TypeConverter, error) {
	converter := managedfields.NewDeducedTypeConverter()
	object := runtime.Object(live)
	// Helm adds the kind CustomResourceDefinition to the scheme, and client-go has no schema of it.
	if known, err := scheme.Scheme.New(live.GroupVersionKind()); err == nil && applyconfigurations.ForKind(live.GroupVersionKind()) != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, known); err != nil {
			return nil, nil, err
		}
		converter, object = schemas(), known
	}
	value, err := converter.ObjectToTyped(object)
	return value, converter, err
}

// Without returns the object without the fields.
func Without(live *unstructured.Unstructured, fields *fieldpath.Set) (*unstructured.Unstructured, error) {
	value, converter, err := typedObject(live)
	if err != nil {
		return nil, err
	}
	left, err := converter.TypedToObject(value.RemoveItems(fields))
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(left)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// AfterTakeover returns an object without the fields that a takeover removes: those that former
// managers own by update, and that nobody owns after the apply. applied is the answer to a dry run of
// the apply. Defaults of the API server are among these fields. It sets them again.
func AfterTakeover(live, applied *unstructured.Unstructured, former sets.Set[string]) (*unstructured.Unstructured, error) {
	isFormer := func(entry *metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "" && former.Has(entry.Manager)
	}
	taken, err := owned(live.GetManagedFields(), isFormer)
	if err != nil {
		return nil, err
	}
	kept, err := owned(applied.GetManagedFields(), func(entry *metav1.ManagedFieldsEntry) bool { return !isFormer(entry) })
	if err != nil {
		return nil, err
	}
	return Without(applied, removable(taken, kept))
}

// owned returns the fields of the entries that match.
func owned(managed []metav1.ManagedFieldsEntry, match func(*metav1.ManagedFieldsEntry) bool) (*fieldpath.Set, error) {
	all := fieldpath.NewSet()
	for i := range managed {
		entry := &managed[i]
		if entry.FieldsV1 == nil || !match(entry) {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("managedFields of %q: %w", entry.Manager, err)
		}
		all = all.Union(set)
	}
	return all, nil
}

// OfChart returns the fields that the chart's object also sets.
func OfChart(object *unstructured.Unstructured, fields *fieldpath.Set) *fieldpath.Set {
	prepared := ssa.Prepare(object)
	found := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if hasField(prepared.Object, path) {
			found.Insert(path.Copy())
		}
	})
	return found
}
