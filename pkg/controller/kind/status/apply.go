// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Target is an object whose status is written, and the field manager of the write. The write
// fails with a conflict if the resourceVersion of Object is not the newest one.
type Target struct {
	GroupVersionKind schema.GroupVersionKind
	Object           metav1.Object
	FieldManager     string
}

// Apply writes a whole status with one forced server-side apply. The field manager
// becomes the only owner of the fields: fields of other managers are taken over or
// removed. For the status of a custom resource the API server does not compare UIDs. The
// patch therefore names the resourceVersion, so that another object of the same name
// never gets the status.
func Apply[T any](ctx context.Context, patcher controller.Patcher[T], target Target, status any) (T, error) {
	data, err := json.Marshal(map[string]any{
		"apiVersion": target.GroupVersionKind.GroupVersion().String(),
		"kind":       target.GroupVersionKind.Kind,
		"metadata": map[string]any{
			"namespace": target.Object.GetNamespace(), "name": target.Object.GetName(), "uid": target.Object.GetUID(),
			"resourceVersion": target.Object.GetResourceVersion(),
		},
		"status": status,
	})
	if err != nil {
		var none T
		return none, fmt.Errorf("encode the status: %w", err)
	}
	force := true
	return patcher.Patch(ctx, target.Object.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: target.FieldManager, Force: &force}, "status")
}
