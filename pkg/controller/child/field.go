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

// ApplyFields sets single fields, an annotation for example, on an object that belongs to
// others: the one with that UID, and no other of its name. The fields get a manager of
// their own, so that neither the object's owner nor another apply removes them, and so
// that fields which a later call leaves out are removed. Callers skip what is set already.
//
// The error wraps a conflict if the object is gone. If it was replaced, [ssa.IsReplaced]
// reports that.
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
	applied, err := patcher.Patch(ctx, object.GetName(), applyPatch, data, options)
	if err != nil {
		return none, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}
