// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// force applies an object of the release to the live object with the UID, and overwrites changes by
// other clients.
//
// A forced apply cannot correct a changed key of a list item, for example a port that `kubectl edit
// service` changed. The apply adds the desired item beside the changed item. The API server refuses
// the two, because their names are the same, or because two items need names and one does not. The
// list is then restored first.
//
// If the API server refuses the change, the object may be replaced, see
// Release.ForceReplace.
func (o *operation) force(info *resource.Info, object *unstructured.Unstructured, uid types.UID) (metav1.Object, error) {
	applied, err := o.overwrite(info, object, uid)
	if err != nil && o.replaces && isChangeRefused(err) {
		return o.replaceObject(info, object, uid, err)
	}
	return applied, err
}

// overwrite sends a forced apply, and restores lists if necessary.
func (o *operation) overwrite(info *resource.Info, object *unstructured.Unstructured, uid types.UID) (metav1.Object, error) {
	applied, err := o.apply(info, object, ssa.Force, uid)
	lists := ssa.DuplicateLists(err)
	if len(lists) == 0 {
		return applied, err
	}
	if putBackErr := o.putBack(info, object, uid, lists); putBackErr != nil {
		return nil, fmt.Errorf("%w (and its lists could not be put back: %w)", err, putBackErr)
	}
	// The engine now also owns the lists by update. A field with both ownerships would stay after
	// its removal from the chart.
	if err := o.takeOver(info); err != nil {
		return nil, err
	}
	return o.apply(info, object, ssa.Force, uid)
}

// putBack replaces the lists in the live object by the lists of the manifest.
func (o *operation) putBack(info *resource.Info, object *unstructured.Unstructured, uid types.UID, lists []string) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.GetUID() != uid {
		return errors.New("it is another object")
	}
	data, err := ssa.RestoreLists(live, object, lists)
	if err != nil {
		return err
	}
	put, err := o.client(info).Patch(o.ctx, info.Name, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return err
	}
	o.engine.flights.Wrote(o.release, put)
	return nil
}

// malformed determines whether an internal error of an apply means that the object violates its
// schema. The API server answers an apply of such an object with an unspecific internal error.
func (o *operation) malformed(info *resource.Info, object *unstructured.Unstructured, answer error) bool {
	var status apierrors.APIStatus
	if !errors.As(answer, &status) ||
		status.Status().Code != http.StatusInternalServerError || status.Status().Reason != metav1.StatusReasonUnknown {
		return false
	}
	err := o.createDry(info, object)
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// createDry asks the API server whether it would create the object. It answers
// AlreadyExists for a valid object whose name is taken.
func (o *operation) createDry(info *resource.Info, object *unstructured.Unstructured) error {
	asked := object.DeepCopy()
	asked.SetResourceVersion("")
	asked.SetUID("")
	_, err := o.client(info).Create(o.ctx, asked, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: FieldManager,
	})
	return err
}
