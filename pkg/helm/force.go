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

// force applies an object of the release, the one with that UID, over whatever
// others made of it.
//
// There is one change that a forced apply alone cannot undo: somebody gives an
// item of a list another key, as `kubectl edit service` does when it changes a
// port. The apply then adds our item beside the changed one, and the API server
// refuses the two because their names are the same, or because two need names
// where one needs none. The list is then put back first.
func (o *operation) force(info *resource.Info, object *unstructured.Unstructured, uid types.UID) (metav1.Object, error) {
	applied, err := o.apply(info, object, ssa.Force, uid)
	lists := ssa.DuplicateLists(err)
	if len(lists) == 0 {
		return applied, err
	}
	if putBackErr := o.putBack(info, object, uid, lists); putBackErr != nil {
		return nil, fmt.Errorf("%w (and its lists could not be put back: %w)", err, putBackErr)
	}
	// The lists now belong to us by update, too. What is owned twice would outlive
	// its removal from the chart.
	if err := o.takeOver(info); err != nil {
		return nil, err
	}
	return o.apply(info, object, ssa.Force, uid)
}

// putBack replaces the lists in the live object by those of the manifest.
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
	o.engine.flights.noteWrite(o.release, put)
	return nil
}

// malformed finds out whether an apply was answered with an internal error
// because the object does not fit its schema: the API server does not say so
// more clearly, and only of an apply.
func (o *operation) malformed(info *resource.Info, object *unstructured.Unstructured, answer error) bool {
	var status apierrors.APIStatus
	if !errors.As(answer, &status) ||
		status.Status().Code != http.StatusInternalServerError || status.Status().Reason != metav1.StatusReasonUnknown {
		return false
	}
	asked := object.DeepCopy()
	asked.SetResourceVersion("")
	asked.SetUID("")
	_, err := o.client(info).Create(o.ctx, asked, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: FieldManager,
	})
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
