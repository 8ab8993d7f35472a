// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// DuplicateLists returns the paths of the lists in which the API server found an item
// twice, or several items without a name: "spec.ports" for "spec.ports[1].name".
//
// A forced apply cannot correct a changed key of a list item, for example a port that "kubectl edit
// service" changed. The apply adds the desired item beside the changed item, and the API server
// refuses the duplicate. Send the patch of [RestoreLists] first.
func DuplicateLists(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	lists := sets.New[string]()
	for _, cause := range status.Status().Details.Causes {
		end := strings.LastIndexByte(cause.Field, '[')
		nameless := cause.Type == metav1.CauseTypeFieldValueRequired && strings.HasSuffix(cause.Field, "].name")
		if end > 0 && (nameless || cause.Type == metav1.CauseTypeFieldValueDuplicate) {
			lists.Insert(cause.Field[:end])
		}
	}
	return sets.List(lists)
}

// RestoreLists returns a JSON patch that replaces the lists at the given paths of the live object
// by the desired lists. The manager then also owns the lists by update.
// csaupgrade.UpgradeManagedFieldsPatch turns this into ownership by apply.
func RestoreLists(live, desired *unstructured.Unstructured, lists []string) ([]byte, error) {
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
	for _, list := range lists {
		pointer, ours, ok := locate(live.Object, desired.Object, list)
		if !ok {
			return nil, fmt.Errorf("the manifest has no list %s", list)
		}
		patch = append(patch, step{Op: "replace", Path: pointer, Value: ours})
	}
	return json.Marshal(patch)
}

// locate finds a list by its path, such as "spec.containers[0].ports". It returns the list's JSON
// pointer in the live object, and its value in the desired object. Items of lists on the path are
// matched by name.
func locate(live, ours any, path string) (pointer string, list any, ok bool) {
	for _, segment := range strings.Split(path, ".") {
		field, index, indexed := strings.Cut(strings.TrimSuffix(segment, "]"), "[")
		liveFields, ok1 := live.(map[string]any)
		ourFields, ok2 := ours.(map[string]any)
		if !ok1 || !ok2 {
			return "", nil, false
		}
		live, ours = liveFields[field], ourFields[field]
		pointer += "/" + field
		if !indexed {
			continue
		}
		i, err := strconv.Atoi(index)
		items, isList := live.([]any)
		if err != nil || !isList || i >= len(items) {
			return "", nil, false
		}
		live = items[i]
		ours = ItemLike(live, ours)
		pointer += "/" + index
	}
	_, isList := ours.([]any)
	return pointer, ours, isList
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
