// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// apply sends one server-side apply, and records the resulting object. With a UID, it succeeds only
// on the object with this UID: another object is Invalid, and an absent object is a Conflict.
func (o *operation) apply(info *resource.Info, object *unstructured.Unstructured, mode ssa.Mode, uid types.UID) (metav1.Object, error) {
	prepared := ssa.Prepare(object)
	applied, err := o.applier(info).Apply(o.ctx, prepared, mode, uid)
	if known := o.withoutUnknown(info, prepared, err); known != nil {
		applied, err = o.applier(info).Apply(o.ctx, known, mode, uid)
	}
	if err != nil {
		return nil, err
	}
	if mode != ssa.Create {
		o.touched = true
	}
	o.engine.flights.Wrote(o.release, applied)
	o.engine.watcher.Wrote(info.Mapping, info.Namespace, applied)
	return applied, ssa.CheckWatched(reference(info), prepared, applied, manifest.ReleaseNameAnnotation, manifest.ReleaseNamespaceAnnotation)
}

// withoutUnknown returns a prepared object without the fields that the API server may not know, after
// the API server refused the object. It returns nil if the object has no such fields, or if the
// release does not leave them out. The API server is asked first, because it may know more fields
// than the operator.
func (o *operation) withoutUnknown(info *resource.Info, prepared *unstructured.Unstructured, answer error) *unstructured.Unstructured {
	if answer == nil || o.validation != metav1.FieldValidationWarn && o.validation != metav1.FieldValidationIgnore {
		return nil
	}
	known, fields := ssa.WithoutUnknownFields(prepared)
	if len(fields) == 0 {
		return nil
	}
	if o.validation == metav1.FieldValidationWarn {
		for _, field := range fields {
			o.addNote(info, field+": the API server does not know this field, so it is left out")
		}
	}
	return known
}

// applier returns the applier of an object.
func (o *operation) applier(info *resource.Info) ssa.Applier {
	return ssa.Applier{
		Client: objectClient{o, info}, Manager: FieldManager, Object: reference(info),
		Wrote: func(object metav1.Object) { o.engine.flights.Wrote(o.release, object) },
	}
}

// objectClient implements ssa.Client for one object of the operation.
type objectClient struct {
	*operation

	info *resource.Info
}

// Get implements ssa.Client.
func (c objectClient) Get(ctx context.Context, name string) (metav1.Object, error) {
	live, err := c.client(c.info).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return live, nil
}

// Patch implements ssa.Client.
func (c objectClient) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions) (metav1.Object, error) {
	if patchType == types.ApplyPatchType {
		c.engine.attempts.send(c.release, identityOf(c.info))
		applied, err := c.engine.sources.Apply(ctx, c.info, data, options)
		if isServerError(err) && c.migrateVersions(c.info) { //nolint:contextcheck // The operation carries its own context.
			return c.engine.sources.Apply(ctx, c.info, data, options)
		}
		return applied, err
	}
	patched, err := c.client(c.info).Patch(ctx, name, patchType, data, options)
	if err != nil {
		return nil, err
	}
	return patched, nil
}

// CheckCreate implements ssa.Client.
func (c objectClient) CheckCreate(ctx context.Context, object *unstructured.Unstructured, options metav1.CreateOptions) error {
	_, err := c.client(c.info).Create(ctx, object, options)
	return err
}

// put applies an object of the release: over the existing object that is known to belong to the
// release, or as a new object. An object of another owner with the same name is not changed.
func (o *operation) put(info *resource.Info, object *unstructured.Unstructured) (metav1.Object, error) {
	object, err := o.spare(info, object)
	if err != nil {
		return nil, err
	}
	made := o.known[identityOf(info)].UID
	got, _ := o.observed(info)
	switch {
	case got != nil && got.UID == made && !o.clientSide:
		applied, err := o.force(info, object, made, ssa.Over(got.Trace.Fingerprint))
		if err != nil && ssa.IsOtherObject(err) {
			applied, _, err = o.settle(info, object, made, err)
		}
		return applied, err
	case got != nil && o.established && got.Release == o.release:
		applied, _, err := o.settle(info, object, "", nil)
		return applied, err
	default:
		applied, _, err := o.ensure(info, object)
		return applied, err
	}
}

// ensure creates an object that is expected to be absent, or takes over an existing object of the
// release. It reports whether it created the object.
func (o *operation) ensure(info *resource.Info, object *unstructured.Unstructured) (metav1.Object, bool, error) {
	applied, err := o.createObject(info, object)
	if err == nil || !apierrors.IsConflict(err) {
		return applied, err == nil, err
	}
	made := o.known[identityOf(info)].UID
	if made != "" && !o.clientSide {
		if applied, err = o.force(info, object, made, ssa.Force); err == nil || !ssa.IsOtherObject(err) {
			return applied, false, err
		}
	}
	return o.settle(info, object, made, err)
}

// createObject applies an object that must not exist, and records its UID.
func (o *operation) createObject(info *resource.Info, object *unstructured.Unstructured) (metav1.Object, error) {
	applied, err := o.apply(info, object, ssa.Create, "")
	if applied != nil {
		o.engine.creations.note(o.release, o.ownerID.UID, applied.GetUID())
	}
	return applied, err
}

// settle reads the live object after an apply with a UID failed, and applies the object if the live
// object belongs to the release.
func (o *operation) settle(info *resource.Info, object *unstructured.Unstructured, uid types.UID, answer error) (metav1.Object, bool, error) {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && (uid != "" || answer == nil) {
		applied, err := o.createObject(info, object)
		return applied, err == nil, err
	}
	if err != nil {
		// The object was deleted again, or the conflict had another cause, for example a quota.
		return nil, false, errors.Join(answer, err)
	}
	if uid != "" && live.GetUID() == uid && apierrors.IsInvalid(answer) {
		return nil, false, answer
	}
	if !o.ours(info, live) {
		return nil, false, o.inTheWay(info, live)
	}
	mode := ssa.Over(fingerprint(ssa.ManagedFields(live)))
	if o.clientSide {
		// Helm 3 owns the object by client-side apply.
		if err := o.applier(info).TakeOver(o.ctx, o.clientSideManagers(info)); err != nil {
			return nil, false, err
		}
		mode = ssa.Force
	}
	if o.hasFormerController(live) && mode == ssa.Claim {
		// The apply cannot replace the reference, which another client wrote, and an object has one
		// controller. The garbage collector may be faster.
		err := o.removeController(info, live)
		if apierrors.IsNotFound(err) {
			applied, err := o.createObject(info, object)
			return applied, err == nil, err
		}
		if err != nil {
			return nil, false, fmt.Errorf("remove the former owner of %s: %w", reference(info), err)
		}
	}
	applied, err := o.force(info, object, live.GetUID(), mode)
	return applied, false, err
}

// hasFormerController reports whether the controller of an object is an earlier owner with the name of the
// release's owner, which no longer exists.
func (o *operation) hasFormerController(live metav1.Object) bool {
	return o.isController(live) && metav1.GetControllerOfNoCopy(live).UID != o.ownerID.UID
}

// removeController removes the controller from the owners of an object.
func (o *operation) removeController(info *resource.Info, live metav1.Object) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "ownerReferences": withoutController(live),
	}})
	if err != nil {
		return err
	}
	_, err = o.client(info).Patch(o.ctx, info.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// ours reports whether a live object belongs to the release. An object belongs to the release if
// the baseline or this process has its UID. A hook with the name of an object belongs to the
// release, and becomes the object, as with Helm. An object with the release's marks belongs to the
// release, too, for example if an uninstall kept it; see provesOwner. An owner reference counts only
// if the owner had the release before this operation.
func (o *operation) ours(info *resource.Info, live *unstructured.Unstructured) bool {
	if made := o.known[identityOf(info)].UID; made != "" && made == live.GetUID() {
		return true
	}
	if o.engine.creations.has(o.release, o.ownerID.UID, live.GetUID()) {
		return true
	}
	if o.isOwnHook(live) && (o.hookNames.Has(identityOf(info)) || o.formerHooks().Has(identityOf(info))) {
		return true
	}
	return o.established && o.isController(live) || !o.hasOtherController(live) && (o.claimed(live) && o.provesOwner(info, live) || o.isNamed(live))
}

// isController reports whether the release's owner, or an earlier owner with the same name, is the
// controller of an object. Names of owners count only in the release's namespace.
func (o *operation) isController(live metav1.Object) bool {
	controller := metav1.GetControllerOf(live)
	if controller == nil || o.ownerID.UID == "" {
		return false
	}
	return controller.UID == o.ownerID.UID || live.GetNamespace() == o.release.Namespace && o.ownerID.Succeeds(record.OwnerOf(controller))
}

// hasOtherController reports whether the controller of an object is not the release's owner. In a
// release without an owner, the chart sets controllers.
func (o *operation) hasOtherController(live metav1.Object) bool {
	return o.ownerID.UID != "" && metav1.GetControllerOf(live) != nil && !o.isController(live)
}

// createHook creates a hook, or applies it over a hook of an earlier run, unless other clients own
// its fields. A Job or a Pod of an earlier run that has ended, or is being deleted, is replaced,
// because it would not run again.
//
// Like an object of the release, a hook gets the owner, so that it goes with the owner. A hook of an
// uninstall does not: the garbage collector would delete it while it runs, if the owner is deleted in
// the foreground.
func (o *operation) createHook(info *resource.Info, object *unstructured.Unstructured) error {
	o.markOwner(object)
	if owners := o.owners(); owners != nil {
		if err := owners.Own(object); err != nil {
			return err
		}
	}
	applied, err := o.apply(info, object, ssa.Create, "")
	if apierrors.IsConflict(err) {
		live, liveErr := o.liveHook(info)
		if liveErr != nil {
			return errors.Join(err, liveErr)
		}
		if !hasEnded(info, live) && !o.hasFormerController(live) { // The garbage collector deletes a hook of a former owner.
			applied, err = o.apply(info, object, ssa.Keep, live.GetUID())
		} else if err = o.clearHook(info); err == nil {
			applied, err = o.apply(info, object, ssa.Create, "")
		}
	}
	if err != nil {
		return err
	}
	if o.hooks == nil {
		o.hooks = map[Identity]types.UID{}
	}
	o.hooks[identityOf(info)] = applied.GetUID()
	return nil
}

// liveHook returns the existing hook with the name, or the release's object: as with Helm, a hook
// and an object of the release with the same name replace each other. liveHook fails if the object
// may not belong to the release.
func (o *operation) liveHook(info *resource.Info) (*unstructured.Unstructured, error) {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get hook %s: %w", reference(info), err)
	}
	if !o.isOwnHook(live) && !o.ours(info, live) {
		return nil, o.inTheWay(info, live)
	}
	return live, nil
}

// isOwnHook reports whether a live object is a hook that may belong to the release. Helm marks an
// object as a hook, but does not record its release.
func (o *operation) isOwnHook(live *unstructured.Unstructured) bool {
	annotations := live.GetAnnotations()
	return annotations[manifest.HookAnnotation] != "" && !o.hasOtherController(live) &&
		(annotations[manifest.ReleaseNameAnnotation] == "" || o.owned(live))
}

// createOnly creates the object. An existing object is not an error.
func (o *operation) createOnly(info *resource.Info, object *unstructured.Unstructured) error {
	if _, err := o.apply(info, object, ssa.Create, ""); err != nil && !ssa.IsOutdated(err, info.Name) {
		return err
	}
	return nil
}

// holder describes the owner of an object for messages.
func (o *operation) holder(object *unstructured.Unstructured) string {
	annotations, owner := object.GetAnnotations(), metav1.GetControllerOf(object)
	if name := annotations[manifest.ReleaseNameAnnotation]; name != "" && (owner == nil || !o.owned(object)) {
		return fmt.Sprintf("the Helm release %s/%s", annotations[manifest.ReleaseNamespaceAnnotation], name)
	}
	if owner != nil {
		return fmt.Sprintf("%s %q", owner.Kind, owner.Name)
	}
	if annotations[manifest.HookAnnotation] != "" {
		return "a Helm release, as a hook that was left"
	}
	managers := make([]string, 0, 1)
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && !slices.Contains(managers, entry.Manager) {
			managers = append(managers, entry.Manager)
		}
	}
	if len(managers) == 0 {
		return "another client"
	}
	return "another client (field managers: " + strings.Join(managers, ", ") + ")"
}

// fate is the effect of a removal on an object.
type fate int

const (
	fateGone    fate = iota // There is no object.
	fateBarred              // The release may have no objects there.
	fateForeign             // The object belongs to another owner.
	fateKept                // Its own policy or the manifest keeps the object.
	fateDeleted
)

// fateOf decides the effect of a removal on an object of the release.
func (o *operation) fateOf(info *resource.Info) (*live.Object, fate, error) {
	if !o.bounds.Allow(info.Namespace) {
		return nil, fateBarred, nil
	}
	got, watched := o.observed(info)
	made, controlled, foreign := o.made(identityOf(info)), false, false
	if !watched || got == nil || got.Release != o.release || got.UID != made {
		// The watch may lag, does not show the controller, and selects by a label that may have
		// been removed.
		found, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if o.isGone(info, err) {
			return nil, fateGone, nil
		}
		if err != nil {
			return nil, fateGone, fmt.Errorf("%s: %w", reference(info), err)
		}
		got, controlled = live.Of(found), o.isController(found) || o.isNamed(found)
		foreign = o.hasOtherController(found) || found.GetUID() != made && !controlled && !o.provesOwner(info, found)
	}
	switch {
	case got.Kept || isKept(info):
		return got, fateKept, nil
	case foreign || !o.deletable(got, made, controlled):
		return got, fateForeign, nil
	default:
		return got, fateDeleted, nil
	}
}

// remove deletes an object of the release. It does nothing if the object is gone, belongs to
// another owner, or is kept by its own policy or by the manifest.
func (o *operation) remove(info *resource.Info, policy metav1.DeletionPropagation) error {
	got, fate, err := o.fateOf(info)
	switch {
	case err != nil || fate == fateGone:
		return err
	case fate == fateBarred:
		o.leave(reference(info), notAllowed)
		return nil
	case fate == fateKept:
		return o.disown(info)
	case fate == fateForeign:
		o.leave(reference(info), "it does not belong to the release")
		return nil
	}
	err = o.client(info).Delete(o.ctx, info.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(got.UID)),
	})
	switch {
	case o.isGone(info, err):
		return nil
	case apierrors.IsConflict(err):
		return o.unlessReplaced(info, got.UID, err)
	case err != nil:
		return fmt.Errorf("delete %s: %w", reference(info), err)
	}
	o.noteRemoved(info, got)
	o.leaveHeld(reference(info), got.Finalizers)
	return nil
}

// deletable reports whether an object may be deleted with the release. An object with the release's
// marks may be deleted. An object that lost some marks, and has no mark of another release, may be
// deleted if its owner, or without an owner its UID, shows that it belongs to the release. An
// object of a takeover may never have had the marks, so only its owner counts.
func (o *operation) deletable(got *live.Object, made types.UID, controlled bool) bool {
	manager, holder := got.Manager, got.Release
	if manager == manifest.ManagedByHelm && holder == o.release {
		return o.established || got.UID == made
	}
	unmarked := (manager == "" || manager == manifest.ManagedByHelm) && (holder.Name == "" || holder == o.release)
	return unmarked && (got.UID == made && (controlled || o.ownerID.UID == "") || o.takeover != nil && controlled)
}

// unlessReplaced returns the conflict of a deletion, or nil if the cause is that the object was
// replaced.
func (o *operation) unlessReplaced(info *resource.Info, uid types.UID, conflict error) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s: %w", reference(info), err)
	case live.GetUID() != uid:
		return nil
	default:
		return fmt.Errorf("delete %s: %w", reference(info), conflict)
	}
}

// removeHook deletes a hook, or the release's object that it replaces, unless another object
// has its name.
func (o *operation) removeHook(info *resource.Info, policy metav1.DeletionPropagation) error {
	uid := o.hooks[identityOf(info)]
	var replaced *unstructured.Unstructured
	if uid == "" {
		live, err := o.liveHook(info)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		uid = live.GetUID()
		if !o.isOwnHook(live) {
			replaced = live
		}
	}
	err := o.client(info).Delete(o.ctx, info.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	switch {
	case apierrors.IsConflict(err):
		return o.unlessReplaced(info, uid, err)
	case err != nil && !ssa.IsGone(err, info.Name):
		return fmt.Errorf("delete hook %s: %w", reference(info), err)
	case replaced != nil:
		o.noteRemoved(info, live.Of(replaced))
		o.touched = true
	}
	return nil
}

// noteRemoved records that the operation deleted an object, before watches show the deletion.
func (o *operation) noteRemoved(info *resource.Info, got *live.Object) {
	o.engine.flights.Deleted(o.release, got)
	o.engine.watcher.View(info.Mapping, info.Namespace).Deleted(got)
}

func (o *operation) client(info *resource.Info) dynamic.ResourceInterface {
	client := o.engine.dynamic.Resource(info.Mapping.Resource)
	if info.Namespace == "" {
		return client
	}
	return client.Namespace(info.Namespace)
}

// spare returns the object with the live values of the ignored fields, so that an apply
// does not change them.
func (o *operation) spare(info *resource.Info, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	paths := fields.IgnoredPaths(o.ignore, object.GetKind(), object.GetName())
	if len(paths) == 0 {
		return object, nil
	}
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return object, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the ignored fields of %s: %w", reference(info), err)
	}
	return fields.Sparing(object, live, paths), nil
}
