// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// NotReplacedError means that the API server refused to change an object, and that the
// engine did not replace the object although [Release.ForceReplace] is set.
type NotReplacedError struct {
	// Reason says why the object is not replaced.
	Reason string
	Err    error
}

// Error implements error.
func (e *NotReplacedError) Error() string {
	return fmt.Sprintf("%v; it is not replaced, because %s: delete it yourself, or undo the change", e.Err, e.Reason)
}

// Unwrap returns the API server's answer.
func (e *NotReplacedError) Unwrap() error { return e.Err }

// dataKinds are the kinds whose objects are never replaced, because their deletion deletes
// data.
var dataKinds = []schema.GroupKind{
	{Kind: "Namespace"}, {Kind: "PersistentVolume"}, {Kind: "PersistentVolumeClaim"}, crdKind,
}

// isChangeRefused reports whether the API server refused fields of an object that exists. Answers
// of policies name no fields, so they do not count. A wrong UID means that the object was replaced.
func isChangeRefused(err error) bool {
	fields := ssa.RefusedFields(err)
	return len(fields) > 0 && !slices.Contains(fields, "") && !ssa.IsReplaced(err)
}

// force applies an object of the release to the live object with the UID, and overwrites changes by
// other clients. If the API server refuses the change, the object may be replaced, see
// Release.ForceReplace. mode is ssa.Force or ssa.Claim.
func (o *operation) force(info *resource.Info, object *unstructured.Unstructured, uid types.UID, mode ssa.Mode) (metav1.Object, error) {
	applied, err := o.apply(info, object, mode, uid)
	if err != nil && o.replaces && isChangeRefused(err) {
		return o.replaceObject(info, object, uid, err)
	}
	return applied, err
}

// replaceObject deletes the object with the UID, whose change the API server refused, and
// creates it again. It returns the refusal if a new object would be refused, too, and if the
// object may not be the engine's.
func (o *operation) replaceObject(info *resource.Info, object *unstructured.Unstructured, uid types.UID, refusal error) (metav1.Object, error) {
	ref := reference(info)
	made := o.known[identityOf(info)].UID == uid || o.engine.creations.has(o.release, o.ownerID.UID, uid)
	if !made && !o.replaceable.Has(identityOf(info)) {
		return nil, refusal
	}
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != uid {
		return nil, refusal // The caller reads the live object.
	}
	if err != nil {
		return nil, fmt.Errorf("replace %s: %w", ref, err)
	}
	if err := o.checkReplace(info, object, live, refusal); err != nil {
		return nil, err
	}
	if err := o.removeReplaced(info, live); err != nil {
		return nil, fmt.Errorf("replace %s: %w", ref, err)
	}
	applied, err := o.createObject(info, object)
	if err != nil {
		return nil, fmt.Errorf("%s was deleted, and was not created again: %w", ref, err)
	}
	return applied, nil
}

// checkReplace fails if a live object may not be replaced, or if a new object would be refused, too.
func (o *operation) checkReplace(info *resource.Info, object, live *unstructured.Unstructured, refusal error) error {
	if reason := irreplaceable(live); reason != "" {
		return &RefusedError{Object: reference(info), Err: &NotReplacedError{Reason: reason, Err: answerOf(refusal)}}
	}
	err := o.applier(info).CheckCreate(o.ctx, ssa.Prepare(object))
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return refusal
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("replace %s: %w", reference(info), err)
	}
	return nil
}

// answerOf returns the API server's answer in a RefusedError.
func answerOf(refusal error) error {
	var refused *RefusedError
	if errors.As(refusal, &refused) {
		return refused.Err
	}
	return refusal
}

// irreplaceable returns why an object may not be replaced; empty when it may.
func irreplaceable(live *unstructured.Unstructured) string {
	kind := live.GroupVersionKind().GroupKind()
	retention, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	switch {
	case slices.Contains(dataKinds, kind):
		return "the deletion of a " + kind.Kind + " deletes data"
	case kind == (schema.GroupKind{Group: "apps", Kind: "StatefulSet"}) && retention == "Delete":
		return "its spec.persistentVolumeClaimRetentionPolicy deletes its data with it"
	case manifest.IsKept(live):
		return "its annotation " + manifest.ResourcePolicyAnnotation + " keeps it"
	default:
		return ""
	}
}

// removeReplaced deletes an object and waits until it is gone.
func (o *operation) removeReplaced(info *resource.Info, replaced *unstructured.Unstructured) error {
	policy, uid := metav1.DeletePropagationBackground, replaced.GetUID()
	err := o.client(info).Delete(o.ctx, info.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	if err != nil && !ssa.IsGone(err, info.Name) {
		return err
	}
	o.touched = true
	o.noteRemoved(info, live.Of(replaced))
	waiter := &hookWaiter{operation: o}
	return waiter.until(info, 0, func(now *unstructured.Unstructured) (bool, error) { return now.GetUID() != uid, nil }, nil)
}
