// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// prune deletes the children that are not in keep.
func (p *pass) prune(ctx context.Context, keep map[id]bool) error {
	var errs []error
	kinds := p.set.written()
	for gvk, kind := range kinds {
		for _, child := range kind.ownedBy(p.owner) {
			if of := (id{gvk.Kind, child.Name}); !keep[of] {
				errs = append(errs, p.remove(ctx, kind, of, child))
				keep[of] = true
			}
		}
	}
	for _, record := range p.status.Applied {
		of := id{record.Kind, record.Name}
		if keep[of] || record.Name == "" || len(content.IsPathSegmentName(record.Name)) > 0 {
			continue // No object can have this name, so another client wrote the record.
		}
		for gvk, kind := range kinds {
			if gvk.Kind == record.Kind {
				errs = append(errs, p.removeUnseen(ctx, kind, of, record))
			}
		}
		if p.set.awaitUnserved(record.Kind, p.owner) {
			p.applied = append(p.applied, record) // It is deleted when its kind is served.
		}
	}
	return errors.Join(errs...)
}

// removeUnseen deletes a recorded child that the cache does not show, because it lost its label or
// its owner. If the child is already deleted, removeUnseen does nothing.
func (p *pass) removeUnseen(ctx context.Context, kind ManagedKind, of id, record childv1alpha1.AppliedChild) error {
	live, err := kind.client(p.owner.GetNamespace()).Get(ctx, of.name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.applied = append(p.applied, record)
		return writeError(of, err)
	}
	got := kind.observe(live)
	if ownershipOf(p.owner, p.set.owner.GroupKind(), record, got) != ownerSelf {
		return nil
	}
	return p.remove(ctx, kind, of, got)
}

func (p *pass) remove(ctx context.Context, kind ManagedKind, of id, child *Observed) error {
	record, known := p.record(of)
	if known {
		p.applied = append(p.applied, record)
	}
	if child.DeletionTimestamp != nil {
		return nil
	}
	// An old version of the owner must not delete children that a newer version desires.
	if err := p.confirmed(ctx, p.set.confirmOnce); err != nil {
		return writeError(of, err)
	}
	background := metav1.DeletePropagationBackground
	err := kind.client(p.owner.GetNamespace()).delete(ctx, child.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(child.UID)), PropagationPolicy: &background,
	})
	if err != nil && !ssa.IsGone(err, child.Name) && !ssa.IsOutdated(err, child.Name) {
		return writeError(of, err)
	}
	if known {
		p.applied = p.applied[:len(p.applied)-1]
	}
	klog.FromContext(ctx).Info("Deleted a child", "target", of.String())
	p.set.flights.Deleted(cache.MetaObjectToName(p.owner), child)
	kind.views.In(p.owner.GetNamespace()).Deleted(child)
	return nil
}
