// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Collisions are the lists of an object that a forced apply cannot correct. An apply merges the items of
// a list by their keys.
type Collisions struct {
	// Duplicates are lists in which the API server found an item twice, or several items without a name:
	// "spec.ports" for "spec.ports[1].name". The apply adds the desired item and keeps an item whose key
	// was changed, for example by "kubectl edit service".
	Duplicates []string
	// Alternatives are lists of items with two fields of which only one may be set: "env" for
	// "env[0].valueFrom". The apply adds the desired field and keeps the alternative, for example a
	// value that "kubectl set env" set.
	Alternatives []string
}

// CollisionsOf returns the lists that an answer Invalid names. Send the patch of [Collisions.Restore]
// before the next apply.
func CollisionsOf(err error) Collisions {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return Collisions{}
	}
	duplicates, alternatives := sets.New[string](), sets.New[string]()
	for _, cause := range status.Status().Details.Causes {
		end := strings.LastIndexByte(cause.Field, '[')
		if end <= 0 {
			continue
		}
		list, item := cause.Field[:end], cause.Field[end:]
		nameless := cause.Type == metav1.CauseTypeFieldValueRequired && strings.HasSuffix(item, "].name")
		switch {
		case nameless || cause.Type == metav1.CauseTypeFieldValueDuplicate:
			duplicates.Insert(list)
		case cause.Type == metav1.CauseTypeFieldValueInvalid && strings.HasSuffix(list, ".env") && strings.HasSuffix(item, "].valueFrom"),
			cause.Type == metav1.CauseType(field.ErrorTypeForbidden) && strings.HasSuffix(list, ".volumes"):
			alternatives.Insert(list)
		}
	}
	return Collisions{Duplicates: sets.List(duplicates), Alternatives: sets.List(alternatives)}
}

// None reports whether there are no collisions.
func (c Collisions) None() bool { return len(c.Duplicates) == 0 && len(c.Alternatives) == 0 }

// Pointers returns the lists as JSON pointers.
func (c Collisions) Pointers() []string {
	var pointers []string
	for _, list := range slices.Concat(c.Duplicates, c.Alternatives) {
		pointers = append(pointers, "/"+strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(list))
	}
	return pointers
}

// Restore returns a JSON patch that replaces the duplicate lists of the live object by the desired lists,
// and the items with another alternative by the desired items. It returns nil if the live object has
// nothing to replace. The manager then also owns these fields by update.
// csaupgrade.UpgradeManagedFieldsPatch turns this into ownership by apply.
func (c Collisions) Restore(live, desired *unstructured.Unstructured) ([]byte, error) {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// Indexes into lists are only valid for the spec that was read. The status, which
	// has no generation of its own, may change at any time.
	patch := []step{
		{Op: "test", Path: "/metadata/uid", Value: live.GetUID()},
		{Op: "test", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
	}
	if generation := live.GetGeneration(); generation > 0 {
		patch[1] = step{Op: "test", Path: "/metadata/generation", Value: generation}
	}
	tests := len(patch)
	for _, list := range c.Duplicates {
		pointer, _, ours, ok := locate(live.Object, desired.Object, list)
		if !ok {
			return nil, fmt.Errorf("the manifest has no list %s", list)
		}
		patch = append(patch, step{Op: "replace", Path: pointer, Value: ours})
	}
	for _, list := range c.Alternatives {
		pointer, theirs, ours, _ := locate(live.Object, desired.Object, list)
		for i, item := range theirs {
			if ours, ok := ItemLike(item, ours).(map[string]any); ok && hasAlternative(item, ours) {
				patch = append(patch, step{Op: "replace", Path: pointer + "/" + strconv.Itoa(i), Value: ours})
			}
		}
	}
	if len(patch) == tests {
		return nil, nil
	}
	return json.Marshal(patch)
}

// hasAlternative reports whether a live item and the desired item each have a field that the other lacks.
func hasAlternative(live any, desired map[string]any) bool {
	fields, _ := live.(map[string]any)
	lacks := func(a, b map[string]any) bool {
		for name := range a {
			if _, has := b[name]; !has {
				return true
			}
		}
		return false
	}
	return lacks(fields, desired) && lacks(desired, fields)
}

// locate finds a list by its path, such as "spec.containers[0].ports". It returns the list's JSON
// pointer in the live object, and the live and the desired list. Items of lists on the path are
// matched by name.
func locate(live, ours any, path string) (pointer string, theirs []any, desired []any, ok bool) {
	for _, segment := range strings.Split(path, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(segment, "]"), "[")
		liveFields, ok1 := live.(map[string]any)
		ourFields, ok2 := ours.(map[string]any)
		if !ok1 || !ok2 {
			return "", nil, nil, false
		}
		live, ours = liveFields[name], ourFields[name]
		pointer += "/" + name
		if !indexed {
			continue
		}
		i, err := strconv.Atoi(index)
		items, isList := live.([]any)
		if err != nil || !isList || i >= len(items) {
			return "", nil, nil, false
		}
		live = items[i]
		ours = ItemLike(live, ours)
		pointer += "/" + index
	}
	theirs, _ = live.([]any)
	desired, ok = ours.([]any)
	return pointer, theirs, desired, ok
}

// ItemLike returns the item of a list that has the same name as the given item.
func ItemLike(item, list any) any {
	fields, ok := item.(map[string]any)
	if !ok || fields["name"] == nil {
		return nil
	}
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	for _, candidate := range items {
		if same, ok := candidate.(map[string]any); ok && same["name"] == fields["name"] {
			return candidate
		}
	}
	return nil
}
