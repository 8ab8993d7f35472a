// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// FieldManager is the field manager of users who write with the plugin. The name does not begin
// with "kubectl": Flux takes fields of such managers back when it applies the object.
const FieldManager = "demoapp-plugin"

// gitOpsManagers are the field managers of tools that write an object again from Git.
var gitOpsManagers = []string{"argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller", "fleetagent", "configsync"}

// GitOpsOwner returns the field manager of a GitOps tool that wrote the spec of an object; empty
// without such a manager.
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

// WriteSpec writes the changed spec of an object, unless its spec has changed since it was read. It
// returns the written object.
func (c *Cluster) WriteSpec(ctx context.Context, before, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.resourceOf(before)
	if err != nil {
		return nil, err
	}
	var written *unstructured.Unstructured
	err = whileSpecStays(ctx, resource, before, before.GetResourceVersion(), func(version string) error {
		patch, err := specPatch(before, after, version)
		if err != nil {
			return err
		}
		written, err = resource.Patch(ctx, before.GetName(), types.MergePatchType, patch, metav1.PatchOptions{
			FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict,
		})
		return err
	})
	return written, err
}

// whileSpecStays writes an object that was read before, with a resource version. After a conflict
// it writes again with the newest version, if the spec has not changed: the operator may have
// written the status.
func whileSpecStays(
	ctx context.Context, resource dynamic.ResourceInterface, before *unstructured.Unstructured, version string, write func(version string) error,
) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := write(version)
		if !apierrors.IsConflict(err) {
			return err
		}
		live, liveErr := resource.Get(ctx, before.GetName(), metav1.GetOptions{})
		if liveErr != nil {
			return liveErr
		}
		if live.GetUID() != before.GetUID() || !reflect.DeepEqual(live.Object["spec"], before.Object["spec"]) {
			return fmt.Errorf("the spec has changed meanwhile: %s", err) //nolint:errorlint // A conflict would be tried again.
		}
		version = live.GetResourceVersion()
		return err
	})
}

// specPatch returns the JSON merge patch of a spec at a resource version.
func specPatch(before, after *unstructured.Unstructured, version string) ([]byte, error) {
	old, err := json.Marshal(map[string]any{"spec": before.Object["spec"]})
	if err != nil {
		return nil, err
	}
	next, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "spec": after.Object["spec"]})
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(old, next)
}
