// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/example/demoapp-controller/pkg/rawjson"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Patcher writes finalizers and statuses. It implements controller.Patcher.
type Patcher struct {
	client    *Client
	namespace string
}

// In returns a patcher of the custom resources in a namespace.
func (c *Client) In(namespace string) Patcher { return Patcher{c, namespace} }

// Patch implements controller.Patcher. It does not apply fields of the status that the CRD
// does not have. After it applied a status, it removes the fields of an upstream operator from the
// status, see [leftovers].
func (p Patcher) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*Resource, error) {
	answer, err := p.patchDeclared(ctx, name, patchType, data, options, subresources...)
	if err != nil {
		return nil, err
	}
	if patchType == types.ApplyPatchType && slices.Equal(subresources, []string{"status"}) {
		removal, err := leftovers(answer, data)
		if err != nil {
			return nil, err
		}
		if removal != nil {
			options := metav1.PatchOptions{FieldManager: options.FieldManager}
			if answer, err = p.client.patch(ctx, p.namespace, name, types.MergePatchType, removal, options, "status"); err != nil {
				return nil, fmt.Errorf("remove status fields of the former operator: %w", err)
			}
		}
	}
	patched := &Resource{}
	if err := patched.UnmarshalJSON(answer); err != nil {
		return nil, err
	}
	patched.keep(p.client.annotations)
	return patched, nil
}

// patchDeclared patches without undeclared fields, and returns the API server's answer. Only the text
// of a refusal of server-side apply would name these fields. So patchDeclared tries the same status as
// a merge patch, from which the API server drops them, and applies the remaining fields.
func (p Patcher) patchDeclared(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) ([]byte, error) {
	declared, err := p.client.undeclared.strip(data)
	if err != nil {
		return nil, err
	}
	answer, refusal := p.client.patch(ctx, p.namespace, name, patchType, declared, options, subresources...)
	if patchType != types.ApplyPatchType || !ssa.IsUnexplained(refusal) {
		return answer, refusal
	}
	kept, err := p.client.patch(ctx, p.namespace, name, types.MergePatchType, declared,
		metav1.PatchOptions{FieldManager: options.FieldManager, DryRun: []string{metav1.DryRunAll}}, subresources...)
	if err != nil || !p.client.undeclared.learn(declared, kept) {
		return nil, refusal
	}
	if declared, err = p.client.undeclared.strip(data); err != nil {
		return nil, err
	}
	return p.client.patch(ctx, p.namespace, name, patchType, declared, options, subresources...)
}

// leftovers returns a merge patch that removes the fields of an upstream operator from a
// status that was just applied; nil without such fields. Server-side apply keeps them, because they
// belong to another field manager. They are the manifest, and conditions of types that the
// controller owns and did not apply.
func leftovers(answer, applied []byte) ([]byte, error) {
	written := rawjson.Member(answer, "status")
	if !isReadable(written) {
		return nil, nil
	}
	var desired struct {
		Status writtenStatus `json:"status"`
	}
	if err := utiljson.Unmarshal(applied, &desired); err != nil {
		return nil, fmt.Errorf("decode the applied status: %w", err)
	}
	var stored writtenStatus
	if utiljson.Unmarshal(written, &stored) != nil {
		return nil, nil //nolint:nilerr // The CRD has another form of the status, or none.
	}
	removal := map[string]any{}
	if stored.DeployedRelease.Manifest != "" && desired.Status.DeployedRelease.Manifest == "" {
		removal["deployedRelease"] = map[string]any{"manifest": nil}
	}
	current := conditionTypes(desired.Status.Conditions)
	kept := slices.DeleteFunc(slices.Clone(stored.Conditions), func(condition any) bool {
		name := conditionType(condition)
		return slices.Contains(OwnConditions, name) && !slices.Contains(current, name)
	})
	if len(kept) < len(stored.Conditions) {
		removal["conditions"] = kept
	}
	if len(removal) == 0 {
		return nil, nil
	}
	identity := object(only(rawjson.Member(answer, "metadata"), "uid", "resourceVersion"))
	return json.Marshal(map[string]any{"metadata": json.RawMessage(identity), "status": removal})
}

// writtenStatus is the part of a status that leftovers compares.
type writtenStatus struct {
	Conditions      []any `json:"conditions"`
	DeployedRelease struct {
		Manifest string `json:"manifest"`
	} `json:"deployedRelease"`
}

func conditionTypes(conditions []any) []string {
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
