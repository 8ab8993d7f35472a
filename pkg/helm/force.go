// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
)

// force applies an object of the release, the one with that UID, over whatever
// others made of it.
//
// There is one change that a forced apply alone cannot undo: somebody gives an
// item of a list another key, as `kubectl edit service` does when it changes a
// port. The apply then adds our item beside the changed one, and the API server
// refuses the two because their names are the same, or because two need names
// where one needs none. The list is then put back first.
func (o *operation) force(info *resource.Info, object *unstructured.Unstructured, uid types.UID) (metav1.Object, error) {
	applied, err := o.apply(info, object, applyForce, uid)
	lists := duplicateLists(err)
	if len(lists) == 0 {
		return applied, err
	}
	if putBackErr := o.putBack(info, object, uid, lists); putBackErr != nil {
		return nil, fmt.Errorf("%w (and its lists could not be put back: %w)", err, putBackErr)
	}
	// The lists now belong to us by update, too. What is owned twice would outlive
	// its removal from the chart.
	if err := o.takeOver(info); err != nil {
		return nil, err
	}
	return o.apply(info, object, applyForce, uid)
}

// duplicateLists returns the paths of the lists in which the API server found
// an item twice, or items without a name, which it allows of a single one:
// "spec.ports" for "spec.ports[1].name".
func duplicateLists(err error) []string {
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

// putBack replaces the lists in the live object by those of the manifest.
func (o *operation) putBack(info *resource.Info, object *unstructured.Unstructured, uid types.UID, lists []string) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.GetUID() != uid {
		return errors.New("it is another object")
	}
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// Places in lists are only good for the spec that was read. The status, which
	// has no generation of its own, may change at any time.
	patch := []step{{Op: "test", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()}}
	if generation := live.GetGeneration(); generation > 0 {
		patch = []step{{Op: "test", Path: "/metadata/generation", Value: generation}}
	}
	for _, list := range lists {
		pointer, ours, ok := locate(live.Object, object.Object, list)
		if !ok {
			return fmt.Errorf("the manifest has no list %s", list)
		}
		patch = append(patch, step{Op: "replace", Path: pointer, Value: ours})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	put, err := o.client(info).Patch(o.ctx, info.Name, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return err
	}
	o.engine.flights.noteWrite(o.release, put)
	return nil
}

// locate finds a list by its path, such as "spec.containers[0].ports", in the
// live object, as a JSON pointer, and in ours, as a value. On the way, items of
// lists are the same when they have the same name.
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
		ours = itemLike(live, ours)
		pointer += "/" + index
	}
	_, isList := ours.([]any)
	return pointer, ours, isList
}

// itemLike returns the item of a list that has the name of the given one.
func itemLike(item, list any) any {
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

// malformed finds out whether an apply was answered with an internal error
// because the object does not fit its schema: the API server does not say so
// more clearly, and only of an apply.
func (o *operation) malformed(info *resource.Info, object *unstructured.Unstructured, answer error) bool {
	var status apierrors.APIStatus
	if !errors.As(answer, &status) ||
		status.Status().Code != http.StatusInternalServerError || status.Status().Reason != metav1.StatusReasonUnknown {
		return false
	}
	asked := object.DeepCopy()
	asked.SetResourceVersion("")
	asked.SetUID("")
	_, err := o.client(info).Create(o.ctx, asked, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: FieldManager,
	})
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
