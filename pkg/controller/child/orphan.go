// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// LettingGo returns LetGo and Orphaned of the [kind.Definition] of a kind with children. note is the
// note of the event.
func LettingGo[T kind.Object[T]](s *Set, status func(T) childv1alpha1.ChildrenStatus, note string) (
	letGo func(context.Context, *kind.Pass[T]) (event.Event, error), orphaned func(context.Context, *kind.Pass[T]) (bool, error),
) {
	letGo = func(ctx context.Context, p *kind.Pass[T]) (event.Event, error) {
		if err := s.LetGo(ctx, p.Observed); err != nil {
			p.Conditions().MarkReconciling(apimeta.ReasonFinalizerFailed, "Deletion waits: "+err.Error())
			return event.Event{}, err
		}
		return event.Normal(apimeta.ReasonOrphaned, "Delete", note+", because the propagation policy of the deletion is Orphan"), nil
	}
	return letGo, func(_ context.Context, p *kind.Pass[T]) (bool, error) {
		return s.Orphaned(p.Object, status(p.Object)), nil
	}
}

// HasApplied reports whether a status records a child.
func HasApplied(status childv1alpha1.ChildrenStatus, kind, name string) bool {
	return slices.ContainsFunc(status.Applied, func(applied childv1alpha1.AppliedChild) bool {
		return applied.Kind == kind && applied.Name == name && applied.UID != ""
	})
}

// Orphaned reports whether the children show that their owner was deleted with the propagation policy
// Orphan. The garbage collector then has removed the owner reference of all children. So no child has
// the reference, and at least one child has changed since the operator applied it and has no
// controller. Orphaned sends no request.
func (s *Set) Orphaned(owner metav1.Object, status childv1alpha1.ChildrenStatus) bool {
	lost := false
	for gvk, kind := range s.written() {
		if slices.ContainsFunc(kind.ownedBy(owner), func(child *Observed) bool { return child.DeletionTimestamp == nil }) {
			return false
		}
		for _, record := range status.Applied {
			if record.Kind != gvk.Kind || record.Fingerprint == "" {
				continue
			}
			got := kind.observed(owner.GetNamespace(), record.Name)
			lost = lost || got != nil && got.DeletionTimestamp == nil && string(got.UID) == record.UID &&
				metav1.GetControllerOfNoCopy(got) == nil && !ssa.Matches(record.Fingerprint, got.trace.Fingerprint)
		}
	}
	return lost
}

// LetGo removes the owner from the children of an owner that is deleted with the propagation policy
// Orphan. It does so only after the garbage collector, which removes its finalizer when it is done: a
// pass that ran at the same time may have written the owner again.
func (s *Set) LetGo(ctx context.Context, owner metav1.Object) error {
	if slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		return nil
	}
	var errs []error
	for gvk, kind := range s.written() {
		for _, child := range kind.ownedBy(owner) {
			errs = append(errs, kind.disown(ctx, owner, id{gvk.Kind, child.Name}))
		}
	}
	return errors.Join(errs...)
}

// disown removes an owner from a child.
func (k ManagedKind) disown(ctx context.Context, owner metav1.Object, of id) error {
	client := k.client(owner.GetNamespace())
	live, err := client.Get(ctx, of.name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return writeError(of, err)
	}
	if !metav1.IsControlledBy(live, owner) {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(),
		"ownerReferences": slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), func(reference metav1.OwnerReference) bool {
			return reference.UID == owner.GetUID()
		}),
	}})
	if err != nil {
		return err
	}
	if _, err := client.Patch(ctx, of.name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: FieldManager}); err != nil && !ssa.IsGone(err, of.name) {
		return writeError(of, err)
	}
	return nil
}
