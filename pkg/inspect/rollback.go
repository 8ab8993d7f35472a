// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager is the field manager of what a user writes with the plugin. The name does not begin
// with "kubectl": Flux takes fields of such managers back when it applies the object.
const FieldManager = "demoapp-plugin"

// gitOpsManagers are the field managers of tools that write an object again from Git.
var gitOpsManagers = []string{"argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller", "fleetagent", "configsync"}

// GitOpsOwner returns the field manager of a GitOps tool that wrote the spec of an object; empty if
// there is none.
func GitOpsOwner(object *unstructured.Unstructured) string { return gitOpsManagerOf(object, "f:spec") }

// gitOpsManagerOf returns the field manager of a GitOps tool that wrote a field, which is a key of
// FieldsV1 such as "f:spec".
func gitOpsManagerOf(object *unstructured.Unstructured, field string) string {
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && entry.FieldsV1 != nil && slices.Contains(gitOpsManagers, entry.Manager) &&
			strings.Contains(entry.FieldsV1.GetRawString(), strconv.Quote(field)) {
			return entry.Manager
		}
	}
	return ""
}

// WriteSpec writes the changed spec of an object, unless the object has changed since it was read. It
// returns the written object.
func (c *Cluster) WriteSpec(ctx context.Context, before, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	old, err := json.Marshal(map[string]any{"spec": before.Object["spec"]})
	if err != nil {
		return nil, err
	}
	next, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": before.GetResourceVersion()}, "spec": after.Object["spec"],
	})
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(old, next)
	if err != nil {
		return nil, err
	}
	resource, err := c.resourceOf(before)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, before.GetName(), types.MergePatchType, patch, metav1.PatchOptions{
		FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
}
