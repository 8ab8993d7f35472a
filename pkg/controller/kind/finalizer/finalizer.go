// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package finalizer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Has reports whether obj has one of the finalizers.
func Has(obj metav1.Object, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(obj.GetFinalizers(), name) })
}

// Ensure adds the finalizer name to obj, in place of the former ones, and returns the updated
// object. It returns obj itself if obj has the finalizer and no former one. It also returns obj
// itself if obj is being deleted, because the API server then rejects new finalizers. The error
// wraps a conflict.
func Ensure[T metav1.Object](ctx context.Context, patcher controller.Patcher[T], obj T, name string, former ...string) (T, error) {
	if Has(obj, name) && !Has(obj, former...) || obj.GetDeletionTimestamp() != nil {
		return obj, nil
	}
	desired := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return slices.Contains(former, f) })
	if !Has(obj, name) {
		desired = append(desired, name)
	}
	updated, err := patch(ctx, patcher, obj, desired)
	if err != nil {
		return obj, fmt.Errorf("add finalizer %q: %w", name, err)
	}
	return updated, nil
}

// Remove removes the finalizers from obj and returns the updated object. It returns obj
// itself if obj lacks all of them or is gone. The error wraps a
// conflict.
func Remove[T metav1.Object](ctx context.Context, patcher controller.Patcher[T], obj T, names ...string) (T, error) {
	if !Has(obj, names...) {
		return obj, nil
	}
	desired := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return slices.Contains(names, f) })
	updated, err := patch(ctx, patcher, obj, desired)
	switch {
	case ssa.IsGone(err, obj.GetName()):
		return obj, nil
	case err != nil:
		return obj, fmt.Errorf("remove finalizer %q: %w", strings.Join(names, ", "), err)
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
