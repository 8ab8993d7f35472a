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

// foreignTime is when others last gave fields of an object a value, in seconds of
// Unix time; 0 when they own none.
func foreignTime(managed []metav1.ManagedFieldsEntry) int64 {
	newest := int64(0)
	for i := range managed {
		if entry := &managed[i]; isForeign(entry) && entry.Time != nil {
			newest = max(newest, entry.Time.Unix())
		}
	}
	return newest
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

// additions are the fields that only others own and that are not to be ignored.
func (o *operation) additions(info *resource.Info, object, live *unstructured.Unstructured) (*fieldpath.Set, error) {
	fields, err := foreignFields(live)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	return newIgnoredFields(o.ignore, reference(info), object).without(fields), nil
}

// repairForeign mends an object that others have added something to. Applied says
// that it has just been applied. If it has not, all else is as it was when the
// decision was made; where that holds no longer, or where the others own alone what
// the chart sets, to remove what they own would take that along, and it is applied
// first.
func (o *operation) repairForeign(info *resource.Info, object *unstructured.Unstructured, applied bool) error {
	live, err := o.look(info)
	if err != nil {
		return err
	}
	if !applied {
		fields, err := o.additions(info, object, live)
		if err != nil {
			return err
		}
		if !chartFields(object, fields).Empty() || compare(o.known[reference(info)], observe(live)) != "" {
			if _, err := o.put(info, object); err != nil {
				return err
			}
			if live, err = o.look(info); err != nil {
				return err
			}
		}
	}
	return o.removeForeign(info, object, live)
}

// chartFields are those of the fields that an object of the chart sets.
func chartFields(object *unstructured.Unstructured, fields *fieldpath.Set) *fieldpath.Set {
	prepared := prepare(object)
	found := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if hasField(prepared.Object, path) {
			found.Insert(path.Copy())
		}
	})
	return found
}

func (o *operation) look(info *resource.Info) (*unstructured.Unstructured, error) {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	return live, nil
}

// removeForeign takes away what only others own in an object. What is left of
// what they own is accepted: fields of ours that they share, and ignored ones.
func (o *operation) removeForeign(info *resource.Info, object, live *unstructured.Unstructured) error {
	fields, err := o.additions(info, object, live)
	if err != nil {
		return err
	}
	result := live
	if !fields.Empty() {
		desired, err := withoutFields(live, fields)
		if err != nil {
			return fmt.Errorf("remove fields of others from %s: %w", reference(info), err)
		}
		if result, err = o.client(info).Update(o.ctx, desired, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
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
	releases map[cache.ObjectName]*keptClean
}

// keptClean is a release that is kept free of fields of others.
type keptClean struct {
	// ignore are the rules by which fields of others were accepted.
	ignore   []IgnoreRule
	accepted map[types.UID]string
}

// want has a release kept free of fields of others but ignored ones, or not any
// more. With other rules, all is to be looked at again.
func (f *foreignWatch) want(release cache.ObjectName, desired bool, ignore []IgnoreRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !desired {
		delete(f.releases, release)
		return
	}
	if f.releases == nil {
		f.releases = map[cache.ObjectName]*keptClean{}
	}
	if known := f.releases[release]; known == nil || !sameRules(known.ignore, ignore) {
		f.releases[release] = &keptClean{ignore: ignore, accepted: map[types.UID]string{}}
	}
}

func (f *foreignWatch) accept(release cache.ObjectName, uid types.UID, digest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.releases[release]; known != nil {
		known.accepted[uid] = digest
	}
}

// has reports whether the object has fields of others that are to be looked at.
func (f *foreignWatch) has(release cache.ObjectName, got *observed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.releases[release]
	return got.foreign != "" && known != nil && known.accepted[got.UID] != got.foreign
}
