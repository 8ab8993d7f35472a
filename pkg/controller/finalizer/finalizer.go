// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package finalizer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Has reports whether obj has the finalizer name.
func Has(obj metav1.Object, name string) bool {
	return slices.Contains(obj.GetFinalizers(), name)
}

// Ensure adds the finalizer name to obj and returns the updated object. It returns
// obj itself if obj has the finalizer. It also returns obj itself if obj is being
// deleted, because the API server then rejects new finalizers. The error wraps a
// conflict.
func Ensure[T metav1.Object](ctx context.Context, patcher controller.Patcher[T], obj T, name string) (T, error) {
	if Has(obj, name) || obj.GetDeletionTimestamp() != nil {
		return obj, nil
	}
	desired := append(slices.Clone(obj.GetFinalizers()), name)
	updated, err := patch(ctx, patcher, obj, desired)
	if err != nil {
		return obj, fmt.Errorf("add finalizer %q: %w", name, err)
	}
	return updated, nil
}

// Remove removes the finalizer name from obj and returns the updated object. It
// returns obj itself if obj lacks the finalizer or is gone. The error wraps a
// conflict.
func Remove[T metav1.Object](ctx context.Context, patcher controller.Patcher[T], obj T, name string) (T, error) {
	if !Has(obj, name) {
		return obj, nil
	}
	desired := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == name })
	updated, err := patch(ctx, patcher, obj, desired)
	switch {
	case apierrors.IsNotFound(err):
		return obj, nil
	case err != nil:
		return obj, fmt.Errorf("remove finalizer %q: %w", name, err)
	default:
		return updated, nil
	}
}

func patch[T metav1.Object](ctx context.Context, patcher controller.Patcher[T], obj T, finalizers []string) (T, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             obj.GetUID(),
		"resourceVersion": obj.GetResourceVersion(),
		"finalizers":      finalizers,
	}})
	if err != nil {
		var none T
		return none, fmt.Errorf("encode patch: %w", err)
	}
	return patcher.Patch(ctx, obj.GetName(), types.MergePatchType, data, metav1.PatchOptions{})
}
