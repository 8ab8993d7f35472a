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

	"github.com/example/demoapp-controller/pkg/ssa"
)

// clusterManagers are the field managers of the cluster's own controllers. Objects need the fields
// that these controllers add.
var clusterManagers = []string{
	"kube-apiserver", "kube-controller-manager", "clusterrole-aggregation-controller", "kube-scheduler", "kubelet",
	"cloud-controller-manager", "cluster-autoscaler",
}

// isForeign reports whether an entry has fields of a client that is neither the engine nor
// one of the cluster's controllers.
func isForeign(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager != FieldManager && entry.Subresource == "" && entry.FieldsV1 != nil &&
		!slices.Contains(clusterManagers, entry.Manager)
}

// foreignDigest identifies the fields that other clients own in an object. It is empty if they own
// no fields.
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

// foreignTime returns the time when other clients last set fields of an object, in Unix seconds. It
// is 0 if they own no fields.
func foreignTime(managed []metav1.ManagedFieldsEntry) int64 {
	newest := int64(0)
	for i := range managed {
		if entry := &managed[i]; isForeign(entry) && entry.Time != nil {
			newest = max(newest, entry.Time.Unix())
		}
	}
	return newest
}

// foreignFields returns the fields that only other clients own, without finalizers and owner
// references, because other controllers depend on these.
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

// removable returns the fields that can be removed without removing fields of other owners:
// leaves, and items of lists.
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

// isAgreement reports whether other controllers depend on the field, or it is in the status.
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

// schemas has the schemas of the kinds that client-go knows. They are parsed at the first
// use, because that takes long.
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

// withoutFields returns the object without the fields.
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

// additions returns the fields that only other clients own and that are not ignored.
func (o *operation) additions(info *resource.Info, object, live *unstructured.Unstructured) (*fieldpath.Set, error) {
	fields, err := foreignFields(live)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	return newIgnoredFields(o.ignore, reference(info), object).without(fields), nil
}

// repairForeign removes the fields that other clients added to an object. applied says that
// the object has just been applied. Otherwise the object is applied first in two cases:
// when it has drifted since the decision, and when another client is the only owner of a
// field that the chart sets. Removing the additions would then remove that field.
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
		if !chartFields(object, fields).Empty() || compare(o.known[reference(info)], observe(live), false) != "" {
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

// chartFields returns the fields that the chart's object also sets.
func chartFields(object *unstructured.Unstructured, fields *fieldpath.Set) *fieldpath.Set {
	prepared := ssa.Prepare(object)
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

// removeForeign removes the fields that only other clients own. It accepts ignored fields, and
// fields that the engine owns as well.
func (o *operation) removeForeign(info *resource.Info, object, live *unstructured.Unstructured) error {
	fields, err := o.additions(info, object, live)
	if err != nil {
		return err
	}
	result := live
	if !fields.Empty() {
		cleaned, err := withoutFields(live, fields)
		if err != nil {
			return fmt.Errorf("remove fields of others from %s: %w", reference(info), err)
		}
		if result, err = o.client(info).Update(o.ctx, cleaned, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			return refused(reference(info), err)
		}
		o.touched = true
		o.engine.flights.Wrote(o.release, result)
		o.engine.watcher.view(info.Mapping, info.Namespace).Wrote(observe(result))
	}
	o.engine.foreign.accept(o.release, result.GetUID(), foreignDigest(ssa.ManagedFields(result)))
	o.record(info, result)
	return nil
}

// foreignWatch has the releases in which fields of other clients are drift, with the accepted
// fields.
type foreignWatch struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*keptClean
}

// keptClean is a release in which fields of other clients are drift.
type keptClean struct {
	// ignore are the rules by which fields were accepted.
	ignore   []IgnoreRule
	accepted map[types.UID]string
}

// set says whether fields of other clients are drift in a release, except for ignored fields. A
// change of the rules drops the accepted fields.
func (f *foreignWatch) set(release cache.ObjectName, enabled bool, ignore []IgnoreRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !enabled {
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

// accept accepts the fields that other clients own in an object.
func (f *foreignWatch) accept(release cache.ObjectName, uid types.UID, digest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.releases[release]; known != nil {
		known.accepted[uid] = digest
	}
}

// has reports whether the object has fields of other clients that were not accepted.
func (f *foreignWatch) has(release cache.ObjectName, got *observed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.releases[release]
	return got.foreign != "" && known != nil && known.accepted[got.UID] != got.foreign
}
