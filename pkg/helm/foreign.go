// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"
)

// clusterManagers are the field managers of the cluster's own controllers. What
// they add to an object is part of how it works.
var clusterManagers = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "cloud-controller-manager", "cluster-autoscaler",
}

// isForeign reports whether an entry stands for fields that somebody added who
// is neither the engine nor the cluster.
func isForeign(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager != FieldManager && entry.Subresource == "" && entry.FieldsV1 != nil &&
		!slices.Contains(clusterManagers, entry.Manager)
}

// foreignDigest stands for what others own in an object; empty when that is
// nothing.
func foreignDigest(managed []metav1.ManagedFieldsEntry) string {
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

// foreignFields are the fields that only others own. Finalizers and owner
// references are left out: they are agreements with other controllers.
func foreignFields(live *unstructured.Unstructured) (*fieldpath.Set, error) {
	foreign, others := fieldpath.NewSet(), fieldpath.NewSet()
	managed := live.GetManagedFields()
	for i := range managed {
		entry := &managed[i]
		if entry.FieldsV1 == nil {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("managedFields of %q: %w", entry.Manager, err)
		}
		if isForeign(entry) {
			foreign = foreign.Union(set)
		} else {
			others = others.Union(set)
		}
	}
	return removable(foreign.Difference(others)), nil
}

// removable reduces fields to those that can be removed without taking along
// what belongs to somebody else: leaves, and items of lists.
func removable(fields *fieldpath.Set) *fieldpath.Set {
	leaves, found := fields.Leaves(), fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		last := path[len(path)-1]
		if path[0].FieldName == nil || last.FieldName != nil && !leaves.Has(path) || isAgreement(path) {
			return
		}
		found.Insert(path.Copy())
	})
	return found
}

func isAgreement(path fieldpath.Path) bool {
	if *path[0].FieldName != "metadata" || len(path) < 2 || path[1].FieldName == nil {
		return *path[0].FieldName == "status"
	}
	return slices.Contains([]string{"finalizers", "ownerReferences"}, *path[1].FieldName)
}

func pathsOf(fields *fieldpath.Set) []fieldpath.Path {
	var paths []fieldpath.Path
	fields.Iterate(func(path fieldpath.Path) { paths = append(paths, path.Copy()) })
	return paths
}

// schemas converts objects of the kinds that client-go knows by their schema,
// and all others by what they look like. Parsing takes a while, so it waits for
// the first use.
var schemas = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

func typedObject(live *unstructured.Unstructured) (*smd.TypedValue, managedfields.TypeConverter, error) {
	converter := managedfields.NewDeducedTypeConverter()
	object := runtime.Object(live)
	if known, err := scheme.Scheme.New(live.GroupVersionKind()); err == nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, known); err != nil {
			return nil, nil, err
		}
		converter, object = schemas(), known
	}
	value, err := converter.ObjectToTyped(object)
	return value, converter, err
}

// withoutFields returns the object without those fields.
func withoutFields(live *unstructured.Unstructured, fields *fieldpath.Set) (*unstructured.Unstructured, error) {
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

// removeForeign takes away what only others own in an object. Where nothing is
// left to take away, what they own is accepted: they share fields of ours.
func (o *operation) removeForeign(info *resource.Info) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at %s: %w", reference(info), err)
	}
	fields, err := foreignFields(live)
	if err != nil {
		return fmt.Errorf("look at %s: %w", reference(info), err)
	}
	result := live
	if !fields.Empty() {
		wanted, err := withoutFields(live, fields)
		if err != nil {
			return fmt.Errorf("remove fields of others from %s: %w", reference(info), err)
		}
		if result, err = o.client(info).Update(o.ctx, wanted, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			return refused(reference(info), err)
		}
		o.touched = true
		o.engine.flights.noteWrite(o.release, result)
		if view := o.engine.watcher.view(info.Mapping, info.Namespace); view != nil {
			view.wrote(observe(result))
		}
	}
	o.engine.foreign.accept(o.release, result.GetUID(), foreignDigest(managedFields(result)))
	o.record(info, result)
	return nil
}

// foreignWatch remembers which releases are to be kept free of fields of others,
// and what was found not to be removable.
type foreignWatch struct {
	mu       sync.Mutex
	accepted map[cache.ObjectName]map[types.UID]string
}

// want has a release kept free of fields of others, or not any more.
func (f *foreignWatch) want(release cache.ObjectName, wanted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !wanted {
		delete(f.accepted, release)
		return
	}
	if f.accepted == nil {
		f.accepted = map[cache.ObjectName]map[types.UID]string{}
	}
	if f.accepted[release] == nil {
		f.accepted[release] = map[types.UID]string{}
	}
}

func (f *foreignWatch) accept(release cache.ObjectName, uid types.UID, digest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if accepted := f.accepted[release]; accepted != nil {
		accepted[uid] = digest
	}
}

// has reports whether the object has fields of others that are to be looked at.
func (f *foreignWatch) has(release cache.ObjectName, got *observed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return got.foreign != "" && f.accepted[release] != nil && f.accepted[release][got.UID] != got.foreign
}
