// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// operation is one action on one release. It implements Helm's kube.Interface: Helm's actions
// determine the steps and their order, and the operation saves requests. It neither sends objects
// that are known to be unchanged, nor reads objects whose state is known.
type operation struct {
	engine *Engine
	// ctx ends at the operation's deadline. cleanup ends later, see cleanUp.
	ctx, cleanup context.Context
	release      cache.ObjectName
	limits       limits
	logger       *slog.Logger
	store        *store
	cfg          *action.Configuration
	lookups      *lookups
	// rendering bounds the template functions.
	rendering functions.Rendering
	baseline  Baseline
	// owner, when set, becomes the controller of the objects.
	owner *metav1.OwnerReference
	// ownerID is the release's owner. established means that the release belonged to the owner
	// before this operation, by its records. In the release's namespace, marks then prove the
	// ownership of objects.
	ownerID     record.Owner
	established bool
	// takeover is the owner for whom the release is taken over; nil without
	// [Release.Takeover].
	takeover *metav1.OwnerReference
	// consents is [Release.Consents].
	consents func(*ConsentError) bool
	// primary is the release's owner; nil without one.
	primary *metav1.OwnerReference
	// bounds are the namespaces of the objects.
	bounds guard.Bounds
	// replaces says that objects may be deleted and created again, see Release.ForceReplace
	// and Release.RollbackForceReplace.
	replaces bool
	// replaceable are objects of another client that a user lets be replaced.
	replaceable sets.Set[Identity]
	// keepsShutdown is Release.KeepShutdown, unless the upgrade was requested. kept is the next manifest
	// with the kept parts; empty if it keeps nothing.
	keepsShutdown bool
	kept          string
	// skipsHooks says that no hooks run.
	skipsHooks bool
	// rendered says that the templates were rendered.
	rendered bool
	// hooks are the hooks that this operation has created.
	hooks map[Identity]types.UID
	// hookFailed means that a hook failed. The remaining steps are cleanup.
	hookFailed bool
	// phase is the action in the events of the hooks: install, upgrade, rollback or delete.
	phase string
	// hookNames are the objects that the hooks of the next revision create.
	hookNames sets.Set[Identity]
	// hooksOfHistory are the hooks of the recorded revisions. They are read when formerHooks needs them.
	hooksOfHistory sets.Set[Identity]
	// parsed has the manifests that were parsed already.
	parsed map[string][]manifest.Document
	// known are the objects of the release after the last operation.
	known map[Identity]InventoryEntry
	// trusted means that the known objects have the content of the deployed manifest. After a
	// failed attempt, they may have another content. Fingerprints do not show this, because they
	// cover only the managers of fields.
	trusted bool
	// base, when set, has the known objects from the manifest of the last success. Helm would use
	// the manifest of a later, failed attempt as the current one, and base replaces that manifest.
	// Objects that failed attempts have sent count as changed.
	base kube.ResourceList
	// clientSide says that the release was last applied by client-side apply. Its objects
	// are then migrated before they are applied.
	clientSide bool
	// formerObjects are the objects of the last revision, if another client made it.
	formerObjects kube.ResourceList
	// ignore names fields that other clients may change.
	ignore []IgnoreRule
	// validation is Release.FieldValidation.
	validation string
	left       []Drift // Drifts that an explanation found and that are not repaired.
	// leftovers are the objects that the operation did not remove.
	leftovers []Leftover
	// awaitsRemoval is Release.AwaitRemoval.
	awaitsRemoval bool
	// touched means that the operation changed objects that existed before.
	touched bool
	// corrected means that a repair changed an object.
	corrected bool
	// installing is the name of the chart of an install, in which Helm creates the files
	// under crds/; empty in other operations.
	installing string
	// checkCRDs checks all files under crds/ before the first one is created.
	checkCRDs func() error
	// chart is the name of the chart that is deployed; empty in other operations.
	chart string

	// notes has one line for each part of the manifest that is not sent.
	notes []string
	// inventory collects the objects of the release after this operation.
	inventory []InventoryEntry
	// existence answers Helm's checks whether an object exists. With nil, Helm does not check.
	existence resource.RESTClient
	// failure is the first error of a request about an object.
	failure error
}

var _ kube.Interface = (*operation)(nil)

// note keeps the first failure, because Helm's actions reduce some errors to text.
func (o *operation) note(err error) error {
	if err != nil && o.failure == nil {
		o.failure, o.store.unfinished = err, true
	}
	return err
}

// IsReachable implements kube.Interface. It sends no request: the next request fails if the API
// server is not reachable.
func (o *operation) IsReachable() error { return nil }

// Create implements kube.Interface. Helm calls it for the objects of a first
// install, for the files under crds/, and for hooks.
func (o *operation) Create(resources kube.ResourceList, _ ...kube.ClientCreateOption) (*kube.Result, error) {
	if err := o.watch(resources); err != nil {
		return &kube.Result{}, o.note(err)
	}
	result := &kube.Result{}
	var refused refusals
	for _, info := range resources {
		err := o.create(info, result)
		if isRefused(err) {
			refused.add("", err) // As with Helm, a user learns of all refused objects.
			continue
		}
		if err != nil {
			o.undo(result.Created, err)
			return result, o.note(err)
		}
	}
	return result, o.note(refused.err())
}

// create creates one object that is expected to be absent.
func (o *operation) create(info *resource.Info, result *kube.Result) error {
	object, err := content(info)
	if err != nil {
		return err
	}
	if !o.owned(object) {
		// The object is a file under crds/, which is not changed if it exists, or a hook.
		if isCRD(object) {
			return o.createOnly(info, object)
		}
		return o.createHook(info, object)
	}
	if err := o.ownObject(info); err != nil {
		return err
	}
	applied, created, err := o.ensure(info, object)
	if err != nil {
		return err
	}
	if created {
		result.Created = append(result.Created, info)
	} else {
		result.Updated = append(result.Updated, info)
	}
	o.record(info, applied)
	return nil
}

// undo removes the created objects if the cause is an object of another owner, so that a refused
// release leaves no objects behind.
func (o *operation) undo(created kube.ResourceList, cause error) {
	var conflict *OwnershipConflictError
	if !errors.As(cause, &conflict) {
		return
	}
	for _, info := range created {
		if err := o.remove(info, metav1.DeletePropagationBackground); err != nil {
			o.touched = true
			o.logger.Warn("Could not remove an object of a refused release",
				slog.String("target", reference(info).String()), slog.Any("err", err))
		}
		o.inventory = slices.DeleteFunc(o.inventory, func(entry InventoryEntry) bool { return entry.Identity() == identityOf(info) })
	}
}

// Update implements kube.Interface: it applies the objects that changed, and deletes the
// objects that the target no longer has.
func (o *operation) Update(originals, targets kube.ResourceList, _ ...kube.ClientUpdateOption) (*kube.Result, error) {
	result := &kube.Result{}
	if err := o.watch(targets); err != nil {
		return result, o.note(err)
	}
	var refused refusals
	for _, target := range targets {
		original := originals.Get(target)
		err := o.update(original, target, result)
		if original != nil && isRefused(err) {
			refused.add("", err)
			continue
		}
		if err != nil {
			o.undo(result.Created, err)
			return result, o.note(err)
		}
	}
	if err := refused.err(); err != nil {
		return result, o.note(err)
	}
	var errs []error
	result.Deleted, errs = o.removeAll(originals.Difference(targets), o.removeInBackground)
	return result, o.note(joined(errs))
}

// update applies one object unless it is unchanged.
func (o *operation) update(original, target *resource.Info, result *kube.Result) error {
	object, err := content(target)
	if err != nil {
		return err
	}
	if err := o.ownObject(target); err != nil {
		return err
	}
	if entry, ok := o.unchanged(original, target); ok {
		o.inventory = append(o.inventory, entry)
		return nil
	}
	if original == nil {
		return o.create(target, result)
	}
	if handsOver(original, object) {
		if err := o.handOver(target); err != nil {
			return err
		}
	}
	applied, err := o.put(target, object)
	if err != nil {
		return err
	}
	result.Updated = append(result.Updated, target)
	o.record(target, applied)
	return nil
}

// unchanged reports whether the target is deployed already and has not drifted. It returns
// the object's entry in the inventory.
func (o *operation) unchanged(original, target *resource.Info) (InventoryEntry, bool) {
	entry, ok := o.known[identityOf(target)]
	if !ok || !o.trusted {
		return InventoryEntry{}, false
	}
	if o.base != nil {
		original = o.base.Get(target)
	}
	if original == nil || o.base != nil && o.engine.attempts.sent(o.release, entry.Identity()) {
		return InventoryEntry{}, false
	}
	got, ok := o.observed(target)
	switch {
	case o.engine.watcher.Unobserved(target.Mapping) != nil:
		// The object is as it was applied, as far as anybody can see.
	case !ok || compare(entry, got, o.isDoubted(target, got)) != "":
		return InventoryEntry{}, false
	}
	was, err := content(original)
	if err != nil {
		return InventoryEntry{}, false
	}
	was = was.DeepCopy()
	o.claim(was)
	is, err := content(target)
	if err != nil || !manifest.Equal(was, is) {
		return InventoryEntry{}, false
	}
	return entry, true
}

// cleanUp extends the deadline for the following cleanup. The deadline of a hook that hangs may
// equal the deadline of the operation, whose context may end a moment later.
func (o *operation) cleanUp() {
	if o.hookFailed || o.ctx.Err() != nil {
		o.ctx = o.cleanup
	}
}

// Delete implements kube.Interface. Helm calls it for the objects of an uninstalled release, for
// hooks by their policy, and to clean up after a failure. Objects of another owner stay. After a
// hook has failed, an error of Delete does not hide that failure, and Helm continues with the
// remaining hooks.
func (o *operation) Delete(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	o.cleanUp()
	removed, errs := o.removeAll(resources, func(info *resource.Info) error {
		remove := o.remove
		if isHook(info) {
			remove = o.removeHook
		}
		err := remove(info, policy)
		if err != nil && o.hookFailed {
			o.logger.Warn("Could not clean up after a failed hook", slog.String("target", reference(info).String()), slog.Any("err", shortened(err)))
			return nil
		}
		return o.note(err)
	})
	if len(errs) > 0 {
		return nil, errs
	}
	return &kube.Result{Deleted: removed}, nil
}

// Get implements kube.Interface. No action that the engine runs calls it.
func (o *operation) Get(kube.ResourceList, bool) (map[string][]runtime.Object, error) {
	return nil, errNotSupported
}

// BuildTable implements kube.Interface. No action that the engine runs calls it.
func (o *operation) BuildTable(io.Reader, bool) (kube.ResourceList, error) {
	return nil, errNotSupported
}

var errNotSupported = errors.New("not part of any operation of the engine")

// GetPodList implements kube.Interface. Helm calls it for hooks whose logs the chart
// requests.
func (o *operation) GetPodList(namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
	o.cleanUp()
	return o.engine.clientset.CoreV1().Pods(namespace).List(o.ctx, options)
}

// OutputContainerLogsForPodList implements kube.Interface.
func (o *operation) OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, writer func(namespace, pod, container string) io.Writer) error {
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			logs, err := o.engine.clientset.CoreV1().Pods(namespace).
				GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).Stream(o.ctx)
			if err != nil {
				return fmt.Errorf("logs of pod %s/%s: %w", namespace, pod.Name, err)
			}
			_, err = io.Copy(writer(namespace, pod.Name, container.Name), logs)
			if err := errors.Join(err, logs.Close()); err != nil {
				return fmt.Errorf("logs of pod %s/%s: %w", namespace, pod.Name, err)
			}
		}
	}
	return nil
}

// GetWaiter implements kube.Interface. The engine does not wait for the health of a
// release, because it watches it.
func (o *operation) GetWaiter(kube.WaitStrategy) (kube.Waiter, error) {
	return &hookWaiter{operation: o}, nil
}

// watch starts to watch the kinds of the resources before they are written, so that no
// change to them is missed. A kind that cannot be watched is written, too.
func (o *operation) watch(resources kube.ResourceList) error {
	mappings := make([]*meta.RESTMapping, 0, len(resources))
	for _, info := range resources {
		object, err := content(info)
		if err != nil {
			return err
		}
		if o.owned(object) {
			mappings = append(mappings, info.Mapping)
		}
	}
	if len(mappings) == 0 {
		return nil
	}
	return o.engine.watcher.Need(o.ctx, o.release, mappings)
}

// observed returns the watched state of the object. It returns false if its kind or namespace is
// not watched.
func (o *operation) observed(info *resource.Info) (*live.Object, bool) {
	view := o.engine.watcher.View(info.Mapping, info.Namespace)
	if view == nil {
		return nil, false
	}
	got, _ := view.Get(info.Namespace, info.Name)
	return got, true
}

// isDoubted reports whether another client may have changed an observed object without a new
// fingerprint.
func (o *operation) isDoubted(info *resource.Info, got *live.Object) bool {
	return got != nil && o.engine.watcher.View(info.Mapping, info.Namespace).IsDoubted(got)
}

// made returns the UID of an object that this operation, or else the last operation, created. It is
// empty if neither created the object.
func (o *operation) made(object Identity) types.UID {
	for _, entry := range o.inventory {
		if entry.Identity() == object {
			return entry.UID
		}
	}
	return o.known[object].UID
}

// record adds the applied object to the inventory.
func (o *operation) record(info *resource.Info, applied metav1.Object) {
	o.inventory = append(o.inventory, InventoryEntry{
		ObjectReference: reference(info),
		UID:             applied.GetUID(),
		Digest:          fingerprint(ssa.ManagedFields(applied)),
	})
}
