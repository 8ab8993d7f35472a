// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/message"
)

// Client reads and writes the objects of one kind in one namespace.
type Client interface {
	Get(ctx context.Context, name string) (metav1.Object, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions) (metav1.Object, error)
	// CheckCreate asks the API server in a dry run whether it would create the object.
	CheckCreate(ctx context.Context, object *unstructured.Unstructured, options metav1.CreateOptions) error
}

// Applier writes one object for one field manager. All writes of objects of releases and of children
// go through it.
type Applier struct {
	Client  Client
	Manager string
	// Object names the object in errors.
	Object ObjectReference
	// Wrote, when set, is called with the answer to each write except the last apply of Apply.
	Wrote func(metav1.Object)
}

// Apply sends a server-side apply of a prepared object, see [Request].
//
// A forced apply of an existing object cannot correct a changed key of a list item, or another
// alternative in it. Apply then restores the list first, see [Collisions].
//
// A [RefusedError] means that the API server will refuse the object again. All errors wrap the API
// server's answer.
func (a Applier) Apply(ctx context.Context, prepared *unstructured.Unstructured, mode Mode, uid types.UID) (metav1.Object, error) {
	data, options, err := Request(prepared, a.Manager, mode, uid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Object, err)
	}
	var applied metav1.Object
	// A hook or an operation must not begin again because many objects are created at the same time.
	err = retry.OnError(retry.DefaultBackoff, isQuotaConflict, func() error {
		applied, err = a.Client.Patch(ctx, a.Object.Name, types.ApplyPatchType, data, options)
		return err
	})
	if found := CollisionsOf(err); !found.None() && (mode == Force || mode == Claim) && uid != "" {
		restored, restoreErr := a.restoreLists(ctx, prepared, uid, found)
		if restoreErr != nil {
			// The apply can succeed after the lists are restored, so its own error is not final.
			return nil, fmt.Errorf("%s: %v; restore its lists: %w", a.Object, err, restoreErr) //nolint:errorlint // See above.
		}
		if restored {
			applied, err = a.Client.Patch(ctx, a.Object.Name, types.ApplyPatchType, data, options)
		}
	}
	if err != nil {
		return nil, a.explain(ctx, prepared, err)
	}
	if mode == Claim {
		if applied, err = a.rewriteManagers(ctx, applied, a.endUpdates); err != nil {
			return nil, fmt.Errorf("claim %s: %w", a.Object, err)
		}
	}
	return applied, nil
}

// ManagedByLabel is the label by which the objects of releases and children are watched.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// CheckWatched returns a [RefusedError] if the answer to an apply lacks the label, or one of these
// annotations, by which the object is watched, because admission has changed it. Neither the health
// nor the drift of the object would be seen.
func CheckWatched(object ObjectReference, prepared, applied metav1.Object, annotations ...string) error {
	check := func(kind, name string, sent, got map[string]string) error {
		if sent[name] == "" || sent[name] == got[name] {
			return nil
		}
		return &RefusedError{Object: object, Err: fmt.Errorf(
			"admission changes its %s %s from %q to %q, and the operator watches objects by it: exclude the object from that policy",
			kind, name, sent[name], message.Truncate(got[name], maxMark))}
	}
	for _, name := range annotations {
		if err := check("annotation", name, prepared.GetAnnotations(), applied.GetAnnotations()); err != nil {
			return err
		}
	}
	return check("label", ManagedByLabel, prepared.GetLabels(), applied.GetLabels())
}

// maxMark bounds the value of a label or an annotation in a message.
const maxMark = 63

// explain returns the error for the answer to an apply. The API server answers 500 without a reason
// if an object violates its schema, and also after other errors. A dry run of a creation
// distinguishes the two cases.
func (a Applier) explain(ctx context.Context, prepared *unstructured.Unstructured, answer error) error {
	if WillRefuseAgain(answer) || IsUnexplained(answer) && WillRefuseAgain(a.CheckCreate(ctx, prepared)) {
		return &RefusedError{Object: a.Object, Err: answer}
	}
	if a.Object.Kind == secretKind.Kind {
		answer = Withheld(answer)
	}
	return fmt.Errorf("%s: %w", a.Object, answer)
}

// CheckCreate asks the API server whether it would create a prepared object. It answers AlreadyExists
// for a valid object whose name is taken.
func (a Applier) CheckCreate(ctx context.Context, prepared *unstructured.Unstructured) error {
	return a.Client.CheckCreate(ctx, prepared.DeepCopy(), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: a.Manager,
	})
}

// restoreLists replaces lists in which another client changed the key of an item by the desired
// lists. The manager then also owns the lists by update. restoreLists removes this second ownership,
// because otherwise a field would stay after its removal from the desired state.
func (a Applier) restoreLists(ctx context.Context, desired *unstructured.Unstructured, uid types.UID, found Collisions) (bool, error) {
	live, err := a.Client.Get(ctx, a.Object.Name)
	if err != nil {
		return false, err
	}
	if live.GetUID() != uid {
		return false, errors.New("it is another object")
	}
	whole, ok := live.(*unstructured.Unstructured)
	if !ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return false, err
		}
		whole = &unstructured.Unstructured{Object: content}
	}
	patch, err := found.Restore(whole, desired)
	if err != nil || patch == nil {
		return false, err
	}
	restored, err := a.Client.Patch(ctx, a.Object.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.Manager})
	if err != nil {
		return false, err
	}
	a.wrote(restored)
	_, err = a.rewriteManagers(ctx, restored, a.takeOver(func(metav1.Object) sets.Set[string] { return sets.New(a.Manager) }))
	return true, err
}

// TakeOver converts the ownership of managers by update into ownership of the applier's manager by
// apply. Otherwise, a field that is no longer desired would stay, because its old manager still owns
// it. managers returns the field managers, given the live object. TakeOver does nothing if the object
// does not exist.
func (a Applier) TakeOver(ctx context.Context, managers func(live metav1.Object) sets.Set[string]) error {
	if _, err := a.rewriteManagers(ctx, nil, a.takeOver(managers)); err != nil {
		return fmt.Errorf("take over %s: %w", a.Object, err)
	}
	return nil
}

func (a Applier) takeOver(managers func(live metav1.Object) sets.Set[string]) func(live metav1.Object) ([]byte, error) {
	return func(live metav1.Object) ([]byte, error) {
		whole, ok := live.(runtime.Object)
		if !ok {
			return nil, fmt.Errorf("unexpected %T", live)
		}
		return csaupgrade.UpgradeManagedFieldsPatch(whole, managers(live), a.Manager)
	}
}

// rewriteManagers sends the JSON patch of managedFields that rewrite returns for an object, unless it is
// empty, and returns the newest version of the object; nil without an object. live is that version; nil
// if it is not known.
func (a Applier) rewriteManagers(
	ctx context.Context, live metav1.Object, rewrite func(live metav1.Object) ([]byte, error),
) (newest metav1.Object, err error) {
	return newest, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found := live
		live = nil // After a conflict, the object is read again.
		if found == nil {
			if found, err = a.Client.Get(ctx, a.Object.Name); apierrors.IsNotFound(err) {
				return nil
			} else if err != nil {
				return err
			}
		}
		newest = found
		patch, err := rewrite(found)
		if err != nil || len(patch) == 0 {
			return err
		}
		taken, err := a.Client.Patch(ctx, a.Object.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.Manager})
		if err == nil {
			a.wrote(taken)
			newest = taken
		}
		return err
	})
}

// endUpdates returns the patch that removes the entries of managers that own desired fields by update.
// The remaining fields of these entries then have no manager. They keep their values, also when they are
// within an item of a list that a later apply removes.
func (a Applier) endUpdates(live metav1.Object) ([]byte, error) {
	managed := live.GetManagedFields()
	own, err := fieldsOfEntry(ownedBy(managed, a.Manager))
	if err != nil {
		return nil, err
	}
	kept := make([]metav1.ManagedFieldsEntry, 0, len(managed))
	for i := range managed {
		entry := &managed[i]
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "" {
			fields, err := fieldsOfEntry(entry)
			if err != nil {
				return nil, err
			}
			if !fields.Intersection(own).Empty() {
				continue
			}
		}
		kept = append(kept, *entry)
	}
	if len(kept) == len(managed) {
		return nil, nil
	}
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": kept},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
}

// fieldsOfEntry returns the fields of an entry. It returns no fields for nil.
func fieldsOfEntry(entry *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if entry == nil || entry.FieldsV1 == nil {
		return fields, nil
	}
	err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes()))
	return fields, err
}

func (a Applier) wrote(object metav1.Object) {
	if a.Wrote != nil {
		a.Wrote(object)
	}
}
