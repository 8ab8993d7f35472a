// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/example/demoapp-controller/pkg/ssa"
)

const applyPatch = types.ApplyPatchType

// restoreLists replaces lists in which another client changed the key of an item by the desired
// lists. The operator then also owns the lists by update. restoreLists removes this second
// ownership, because otherwise a field would stay after its removal from the desired state.
func (p *pass) restoreLists(ctx context.Context, client client, desired desiredChild, got *Observed, lists []string) error {
	live, err := client.get(ctx, desired.name)
	if err != nil {
		return err
	}
	if live.GetUID() != got.UID {
		return errors.New("it is another object")
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return err
	}
	patch, err := ssa.RestoreLists(&unstructured.Unstructured{Object: content}, desired.object, lists)
	if err != nil {
		return err
	}
	restored, err := client.patch(ctx, desired.name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return err
	}
	whole, ok := restored.(runtime.Object)
	if !ok {
		return nil
	}
	if patch, err = csaupgrade.UpgradeManagedFieldsPatch(whole, sets.New(FieldManager), FieldManager); err != nil || len(patch) == 0 {
		return err
	}
	_, err = client.patch(ctx, desired.name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}
