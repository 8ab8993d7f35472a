// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// ApplyFields sets single fields, for example an annotation, on an object of another owner. It
// writes only to the object with the given UID, and not to a replacement with the same name. The
// fields have a separate field manager, so neither the object's owner nor another apply removes
// them. Fields that a later call omits are removed. Callers skip fields that are already set.
//
// The error wraps a conflict if the object was deleted. If the object was replaced,
// [ssa.IsReplaced] returns true for the error.
func ApplyFields[T any](ctx context.Context, patcher controller.Patcher[T], manager string, uid types.UID, fields Desired) (T, error) {
	var none T
	if uid == "" {
		return none, errors.New("apply fields: the UID of the object is required")
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return none, fmt.Errorf("encode fields: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return none, fmt.Errorf("encode fields: %w", err)
	}
	data, options, err := ssa.Request(object, manager, ssa.Force, uid)
	if err != nil {
		return none, fmt.Errorf("encode fields: %w", err)
	}
	applied, err := patcher.Patch(ctx, object.GetName(), types.ApplyPatchType, data, options)
	if err != nil {
		return none, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}
