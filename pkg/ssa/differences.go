// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Loss describes the fields that another client changed in an object.
type Loss struct {
	// Fields are JSON pointers to the fields whose values differ.
	Fields []string
	// Managers are the field managers that own them.
	Managers []string
	// Paths are the fields that the manager would own after an apply, but does not own.
	Paths *fieldpath.Set
}

// LossOf returns the differences that an apply of the manager would restore. applied is the answer
// to a dry run of the apply, and live is the object.
func LossOf(applied, live *unstructured.Unstructured, manager string) (Loss, error) {
	should, err := owned(applied, manager)
	if err != nil {
		return Loss{}, err
	}
	does, err := owned(live, manager)
	if err != nil {
		return Loss{}, err
	}
	loss := Loss{
		Fields: Nameable(live.GroupVersionKind().GroupKind(), Differences(stable(applied), stable(live))),
		Paths:  should.Difference(does),
	}
	loss.Managers, err = Owners(live, loss.Paths, manager)
	return loss, err
}

// owned returns the fields that a manager owns by apply.
func owned(object metav1.Object, manager string) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	fields := OwnedFields(ManagedFields(object), manager)
	if fields == nil {
		return set, nil
	}
	if err := set.FromJSON(bytes.NewReader(fields.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("managedFields of %q: %w", manager, err)
	}
	return set, nil
}

// Owners returns the other managers that own some of the fields. If nobody owns them, because they
// were removed, it returns the manager that wrote last since the manager's apply.
func Owners(live metav1.Object, fields *fieldpath.Set, manager string) ([]string, error) {
	var owners []string
	managed := live.GetManagedFields()
	for i := range managed {
		entry := &managed[i]
		if entry.FieldsV1 == nil || isApply(entry, manager) || slices.Contains(owners, entry.Manager) {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("managedFields of %q: %w", entry.Manager, err)
		}
		if !set.Leaves().Intersection(fields).Empty() {
			owners = append(owners, entry.Manager)
		}
	}
	if last := lastWriter(managed, manager); len(owners) == 0 && last != "" {
		owners = append(owners, last)
	}
	return owners, nil
}

// stable returns the content of an object without the fields that the API server sets.
func stable(object *unstructured.Unstructured) map[string]any {
	compared := object.DeepCopy().Object
	delete(compared, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(compared, "metadata", field)
	}
	return compared
}

// secretKey matches a key in the data of a Secret, in a JSON pointer or a path of
// managedFields. The keys may be secret themselves.
var secretKey = regexp.MustCompile(`(?s)^([/.](?:data|stringData))[/.].*$`)

// Nameable returns the fields of an object for messages, without the keys in the data of a Secret.
func Nameable(kind schema.GroupKind, fields []string) []string {
	if kind != secretKind {
		return fields
	}
	var named []string
	for _, field := range fields {
		field = secretKey.ReplaceAllString(field, "$1")
		if !slices.Contains(named, field) {
			named = append(named, field)
		}
	}
	return named
}

// SameItem returns the item of a live list that corresponds to the desired item: the item
// with the same name, or, without names, the item at the same index. Several items may have one name, such
// as the mounts of one volume, so an item of this name at the same index comes first.
func SameItem(desired, live any, index int) any {
	items, _ := live.([]any)
	fields, _ := desired.(map[string]any)
	var found any
	if index < len(items) {
		found = items[index]
	}
	at, _ := found.(map[string]any)
	if name := fields["name"]; name != nil && at["name"] != name {
		return ItemLike(desired, live)
	}
	return found
}

// PointerToken returns a key as a part of a JSON pointer, with a slash before it.
func PointerToken(field string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(field, "~", "~0"), "/", "~1")
}

// Differences returns the fields whose values differ, as JSON pointers into the desired
// object. It returns no values, because some are secret.
func Differences(desired, live map[string]any) []string { return differences(desired, live, "") }

func differences(desired, live any, path string) []string {
	switch w := desired.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return []string{path}
		}
		return differentFields(w, l, path)
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(w) {
			return []string{path}
		}
		var found []string
		for i := range w {
			found = append(found, differences(w[i], SameItem(w[i], l, i), path+"/"+strconv.Itoa(i))...)
		}
		return found
	default:
		if desired == live {
			return nil
		}
		return []string{path}
	}
}

func differentFields(desired, live map[string]any, path string) []string {
	names := slices.Sorted(maps.Keys(desired))
	for name := range live {
		if _, ok := desired[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		is, inLive := live[name]
		want, inDesired := desired[name]
		if inLive != inDesired {
			found = append(found, path+PointerToken(name))
			continue
		}
		found = append(found, differences(want, is, path+PointerToken(name))...)
	}
	return found
}
