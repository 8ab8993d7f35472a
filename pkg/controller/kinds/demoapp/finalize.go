// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// finalize writes the audit record of an app and uninstalls its release, in this order.
// Both steps are idempotent. A failed step holds the deletion, and the status reports it.
func (c *Controller) finalize(ctx context.Context, p *pass) (event.Event, error) {
	return c.audited(ctx, p, "", func() (event.Event, []helm.Leftover, error) {
		desired, policy := binding{c}.Release(p.Observed)
		return c.Uninstall(ctx, p, desired, p.Observed.Status.ReleaseStatus, policy)
	})
}

// letGo writes the audit record of an app and lets its release go. See finalize.
func (c *Controller) letGo(ctx context.Context, p *pass) (event.Event, error) {
	return c.audited(ctx, p, metav1.DeletePropagationOrphan, func() (event.Event, []helm.Leftover, error) {
		desired, policy := binding{c}.Release(p.Observed)
		done, err := c.LetGo(ctx, desired, p.Observed.Status.ReleaseStatus, policy)
		return done, nil, err
	})
}

// audited calls end after the audit record is written. The event of end names the record.
func (c *Controller) audited(
	ctx context.Context, p *pass, policy metav1.DeletionPropagation, end func() (event.Event, []helm.Leftover, error),
) (event.Event, error) {
	app := p.Observed
	record := c.auditRecord(app)
	record.Policy = policy
	written, err := c.audit.Ensure(ctx, record)
	if err != nil && app.Namespace == c.audit.Namespace() && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// The audit record would be deleted with the namespace, as the app is.
		err = nil
	}
	if err != nil {
		return event.Event{}, c.blockDeletion(ctx, p, v1alpha1.ReasonAuditFailed, err)
	}
	done, left, err := end()
	if err != nil {
		if written != "" {
			event.Emit(ctx, c.recorder, app, event.Normal("Audited", "Delete", "Wrote audit record "+written))
		}
		return event.Event{}, c.blockDeletion(ctx, p, releasev1alpha1.ReasonUninstallFailed, err)
	}
	if len(left) > 0 {
		// The deletion does not wait for this: a retry would no longer know the remaining objects.
		if err := c.audit.Amend(ctx, record, auditLeft, helm.Enumerate(left)); err != nil {
			klog.FromContext(ctx).Info("The audit record does not name what the uninstall left", "err", err)
		}
	}
	if written != "" {
		done.Note += "; the audit record is " + written
	}
	return done, nil
}

// clearStatus clears the app's own status after its release is uninstalled.
func clearStatus(p *pass, _ event.Event) {
	s := &p.Object.Status
	s.URL, s.ExternalURL, s.IngressHost, s.NodePort = "", "", "", 0
	p.Conditions().Remove(v1alpha1.ConditionExposed)
}

// blockDeletion reports why the deletion cannot complete. The deletion is always retried.
func (c *Controller) blockDeletion(ctx context.Context, p *pass, reason string, cause error) error {
	cause = c.Redact(ctx, p.Object, cause)
	p.Conditions().MarkReconciling(reason, "Deletion waits: "+cause.Error())
	return cause
}
