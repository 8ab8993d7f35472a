// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Patcher writes finalizers and statuses. It implements controller.Patcher.
type Patcher struct {
	Client dynamic.ResourceInterface
	// Undeclared are the fields that are not applied. All patchers of a kind share them.
	Undeclared *Undeclared
}

// Patch implements controller.Patcher. It does not apply fields of the status that the CRD
// does not have. After it applied a status, it removes what an upstream operator left in
// the status, see [leftovers].
func (p Patcher) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*Resource, error) {
	object, err := p.patchDeclared(ctx, name, patchType, data, options, subresources...)
	if err != nil {
		return nil, err
	}
	if patchType == types.ApplyPatchType && slices.Equal(subresources, []string{"status"}) {
		removal, err := leftovers(object, data)
		if err != nil {
			return nil, err
		}
		if removal != nil {
			options := metav1.PatchOptions{FieldManager: options.FieldManager}
			if object, err = p.Client.Patch(ctx, name, types.MergePatchType, removal, options, "status"); err != nil {
				return nil, fmt.Errorf("remove status fields of the former operator: %w", err)
			}
		}
	}
	return New(object), nil
}

// patchDeclared patches without undeclared fields. It learns of them from the API server's
// refusals, each of which names one field or more.
func (p Patcher) patchDeclared(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	for {
		declared, known, err := p.Undeclared.strip(data)
		if err != nil {
			return nil, err
		}
		object, err := p.Client.Patch(ctx, name, patchType, declared, options, subresources...)
		if err == nil || !p.Undeclared.learn(err, known) {
			return object, err
		}
	}
}

// leftovers returns a merge patch that removes the fields of an upstream operator from a
// status that was just applied; nil if there are none. Server-side apply keeps them,
// because they belong to another field manager. They are the manifest, and
// conditions of types that the controller owns and did not apply.
func leftovers(object *unstructured.Unstructured, applied []byte) ([]byte, error) {
	desired := &unstructured.Unstructured{}
	if err := json.Unmarshal(applied, &desired.Object); err != nil {
		return nil, fmt.Errorf("decode the applied status: %w", err)
	}
	removal := map[string]any{}
	if stored, _, _ := unstructured.NestedString(object.Object, "status", "deployedRelease", "manifest"); stored != "" {
		if kept, _, _ := unstructured.NestedString(desired.Object, "status", "deployedRelease", "manifest"); kept == "" {
			removal["deployedRelease"] = map[string]any{"manifest": nil}
		}
	}
	current := conditionTypes(desired)
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	kept := slices.DeleteFunc(slices.Clone(conditions), func(condition any) bool {
		name := conditionType(condition)
		return slices.Contains(OwnConditions, name) && !slices.Contains(current, name)
	})
	if len(kept) < len(conditions) {
		removal["conditions"] = kept
	}
	if len(removal) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()},
		"status":   removal,
	})
}

func conditionTypes(object *unstructured.Unstructured) []string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	types := make([]string, 0, len(conditions))
	for _, condition := range conditions {
		types = append(types, conditionType(condition))
	}
	return types
}

func conditionType(condition any) string {
	fields, _ := condition.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}
