// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/finalizer"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
)

// finalize ends an app: audit record, then release, then finalizer. Each step
// may have been done by an earlier pass. A step that fails holds up the rest,
// and the status says so.
func (c *Controller) finalize(ctx context.Context, app *v1alpha1.DemoApp) error {
	if !finalizer.Has(app, v1alpha1.Finalizer) {
		return nil
	}
	p := &pass{observed: app, app: app.DeepCopy(), now: c.clock.Now()}
	c.rollouts.Set(p.key(), rollout.Settled)
	written, err := c.audit.Ensure(ctx, auditRecord(app))
	if err != nil && app.Namespace == c.audit.Namespace() && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// The record would go with the namespace that the app goes with.
		err = nil
	}
	if err != nil {
		return c.blockDeletion(ctx, p, v1alpha1.ReasonAuditFailed, err)
	}
	if written != "" {
		c.emit(app, event{corev1.EventTypeNormal, "Audited", "Delete", "Wrote audit record " + written})
	}
	if err := c.engine.Uninstall(ctx, c.releaseOf(app), baselineOf(app)); err != nil {
		return c.blockDeletion(ctx, p, v1alpha1.ReasonUninstallFailed, err)
	}
	ended, err := finalizer.Remove(ctx, c.apps.DemoApps(app.Namespace), app, v1alpha1.Finalizer)
	if apierrors.IsConflict(err) {
		// Something changed the app meanwhile, and news of it is on its way.
		return err
	}
	if err != nil {
		return c.blockDeletion(ctx, p, v1alpha1.ReasonFinalizerFailed, err)
	}
	// Only now is it known that no other pass says so again.
	c.emit(app, event{corev1.EventTypeNormal, "Uninstalled", "Delete", fmt.Sprintf("Uninstalled release %s", app.Name)})
	if len(ended.Finalizers) == 0 || finalizer.Has(ended, v1alpha1.Finalizer) {
		// It went with its last finalizer, or had gone before.
		c.latest.Gone(ended)
	} else {
		c.latest.Wrote(ended)
	}
	return nil
}

// blockDeletion says why a deletion does not come to its end. It is retried:
// whatever is in the way has to go at some time.
func (c *Controller) blockDeletion(ctx context.Context, p *pass, reason string, cause error) error {
	// As far as they can be had: what cannot be read now was not read for this.
	_ = errors.Join(c.observeAPIKey(ctx, p), c.observeValues(ctx, p))
	cause = redactError(p.secretTexts(), cause)
	p.conditions().MarkReconciling(reason, "Deletion waits: "+cause.Error())
	if err := c.commit(ctx, p); err != nil {
		return fmt.Errorf("%w (and the status could not be written: %w)", cause, err)
	}
	return cause
}
