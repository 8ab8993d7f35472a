// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

type pass = kind.Pass[*v1alpha1.DemoAppCluster]

// observation is the observed state of a DemoAppCluster: a slot for each selected node,
// and the apps without one.
type observation struct {
	slots []slot
	extra []extra
}

// steps gather, decide, act and report, in this order.
func (c *Controller) steps(ctx context.Context, p *pass) error {
	selector, err := selectorOf(p.Object.Spec.NodeSelector)
	if err != nil {
		p.Conditions().MarkStalled(v1alpha1.ReasonValidationFailed, err.Error())
		p.Object.Status.ObservedGeneration = p.Object.Generation
		return controller.Terminal(err)
	}
	if err := c.nodes.Need(p.Key(), c.Queue()); err != nil {
		reportUnknownNodes(p, err)
		return nil
	}
	observed := c.observe(p.Object, selector)
	removal := decideRemovals(observed.extra, p.Object.Status.PendingRemovals, gracePeriod(p.Object), p.Now)
	if planned := decide(observed, removal.now, maxUnavailable(p.Object.Spec.UpdateStrategy, len(observed.slots))); !planned.isEmpty() {
		if err = c.act(ctx, p, planned); controller.IsPending(err) {
			return err
		}
		observed = c.observe(p.Object, selector)
	}
	count(&p.Object.Status, observed.slots)
	recordRemovals(p, observed.extra, removal.pending, selector)
	if err != nil {
		return reportFailure(p, err)
	}
	summarize(p, observed)
	return nil
}

// act executes a plan.
func (c *Controller) act(ctx context.Context, p *pass, planned plan) error {
	cluster := p.Object
	client := c.apps.DemoApps(cluster.Namespace)
	// An old version of the DemoAppCluster must not change the desired state of a newer version. A
	// DemoApp may be gone, or have no owner, because its DemoAppCluster is gone.
	var err error
	switch {
	case len(planned.create) > 0 && cluster.Status.ObservedGeneration > 0,
		slices.ContainsFunc(planned.update, func(s slot) bool { return isOrphan(s.app) }):
		err = p.ConfirmNow(ctx)
	case len(planned.remove)+len(planned.update) > 0:
		err = p.Confirm(ctx)
	}
	if err != nil {
		return err
	}
	removeErr := inBatches(ctx, len(planned.remove), parallelWrites, func(ctx context.Context, i int) error {
		app := planned.remove[i].app
		if !planned.remove[i].unwanted {
			if err := c.confirmAbsence(ctx, cluster, app); err != nil {
				return err
			}
		}
		return c.children.delete(ctx, client, app)
	})
	createErr := inBatches(ctx, len(planned.create), parallelWrites, func(ctx context.Context, i int) error {
		err := c.children.create(ctx, client, planned.create[i].desired)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // The cache soon shows the deletion of the namespace.
		}
		return err
	})
	updateErr := inBatches(ctx, len(planned.update), parallelWrites, func(ctx context.Context, i int) error {
		updated, err := updatedApp(planned.update[i].app, planned.update[i].desired)
		if err != nil {
			return err
		}
		return c.children.update(ctx, client, updated)
	})
	if err := errors.Join(removeErr, createErr, updateErr); err != nil {
		return fmt.Errorf("DemoApps of %s: %w", cluster.Name, err)
	}
	return nil
}
