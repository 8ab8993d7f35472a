// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Extract returns the fields of an object that a manager owns by apply, with the keys of their list
// items. An apply of these fields changes nothing. Extract returns nil if the manager owns none.
func Extract(live *unstructured.Unstructured, manager string) (map[string]any, error) {
	fields, err := owned(live, manager)
	if err != nil || fields.Empty() {
		return nil, err
	}
	var value *typed.TypedValue
	if scheme.Scheme.Recognizes(live.GroupVersionKind()) {
		value, err = converter().ObjectToTyped(live, typed.AllowDuplicates)
	} else {
		value, err = typed.DeducedParseableType.FromUnstructured(live.Object, typed.AllowDuplicates)
	}
	if err != nil {
		return nil, fmt.Errorf("fields of %q: %w", manager, err)
	}
	extracted, _ := value.ExtractItems(fields.Leaves(), typed.WithAppendKeyFields()).AsValue().Unstructured().(map[string]any)
	return extracted, nil
}
