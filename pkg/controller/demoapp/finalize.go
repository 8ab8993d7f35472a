// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/controller/finalizer"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
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
		event.Emit(c.recorder, app, event.Normal("Audited", "Delete", "Wrote audit record "+written))
	}
	uninstalled := event.Normal("Uninstalled", "Delete", fmt.Sprintf("Uninstalled release %s", app.Name))
	err = c.engine.Uninstall(ctx, c.releaseOf(app), baselineOf(app))
	var conflict *helm.OwnershipConflictError
	if errors.As(err, &conflict) && conflict.OfRelease() {
		uninstalled = event.Normal("LeftAlone", "Delete", fmt.Sprintf("%v, and was left alone", conflict))
		err = nil
	}
	if err != nil {
		return c.blockDeletion(ctx, p, releasev1alpha1.ReasonUninstallFailed, err)
	}
	if err := c.reportUninstalled(ctx, p); err != nil {
		return err
	}
	ended, err := finalizer.Remove(ctx, c.apps.DemoApps(app.Namespace), p.observed, v1alpha1.Finalizer)
	if apierrors.IsConflict(err) {
		// The app changed meanwhile, and the event of that change queues it again.
		return err
	}
	if err != nil {
		return c.blockDeletion(ctx, p, apimeta.ReasonFinalizerFailed, err)
	}
	// Only now is it known that no other pass says so again.
	event.Emit(c.recorder, app, uninstalled)
	if len(ended.Finalizers) == 0 || finalizer.Has(ended, v1alpha1.Finalizer) {
		// It went with its last finalizer, or had gone before.
		c.latest.Gone(ended)
		return nil
	}
	c.latest.Wrote(ended)
	// An attempt that failed may have said meanwhile that the deletion waits for it.
	p.observed = ended
	p.summarizeUninstalled()
	return c.commit(ctx, p)
}

// reportUninstalled says in the status that the release is gone, where finalizers of
// others keep the app. Without them the app is gone a moment later, and nobody would
// read it.
func (c *Controller) reportUninstalled(ctx context.Context, p *pass) error {
	deployed := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionDeployed)
	reported := deployed != nil && deployed.Reason == releasev1alpha1.ReasonUninstalled
	if reported || len(othersFinalizers(p.app)) == 0 {
		return nil
	}
	p.summarizeUninstalled()
	return c.commit(ctx, p)
}

// summarizeUninstalled leaves in the status what is true without a release. The
// history stays.
func (p *pass) summarizeUninstalled() {
	s := &p.app.Status
	s.DeployedRelease, s.Inventory, s.AppliedManifestHash = nil, nil, ""
	s.LastGoodRevision, s.Failures = 0, nil
	s.Replicas, s.ReadyReplicas, s.Selector = 0, 0, ""
	s.URL, s.ExternalURL, s.IngressHost, s.NodePort = "", "", "", 0
	p.conditions().Remove(releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionRemediated, v1alpha1.ConditionExposed)
	message := fmt.Sprintf("Release %s is uninstalled; the deletion waits for finalizers of others: %s",
		p.app.Name, strings.Join(othersFinalizers(p.app), ", "))
	p.conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonUninstalled, message)
	p.conditions().MarkReconciling(releasev1alpha1.ReasonUninstalled, message)
}

// othersFinalizers are the finalizers of an app that others have to remove.
func othersFinalizers(app *v1alpha1.DemoApp) []string {
	return slices.DeleteFunc(slices.Clone(app.Finalizers), func(name string) bool { return name == v1alpha1.Finalizer })
}

// blockDeletion says why a deletion does not come to its end. It is retried:
// whatever is in the way has to go at some time.
func (c *Controller) blockDeletion(ctx context.Context, p *pass, reason string, cause error) error {
	// As far as they can be had: what cannot be read now was not read for this.
	_ = errors.Join(c.observeAPIKey(ctx, p), c.observeValues(ctx, p))
	cause = p.redactError(cause)
	p.conditions().MarkReconciling(reason, "Deletion waits: "+cause.Error())
	if err := c.commit(ctx, p); err != nil {
		return fmt.Errorf("%w (and the status could not be written: %w)", cause, p.redactError(err))
	}
	return cause
}
