// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// busyRetry is when to look again at a release that somebody else is changing,
// although their change is told of when it comes to its end.
const busyRetry = 10 * time.Second

// terminatingRetry is when to look again at an app whose namespace is being
// deleted: it should be gone by then.
const terminatingRetry = 30 * time.Second

// retrySoon is when to go on with a revision whose time was up when the objects were
// applied again.
const retrySoon = time.Second

// observeRelease looks at the release and decides what is to be done.
func (c *Controller) observeRelease(ctx context.Context, p *pass) error {
	var err error
	if p.wanted = c.wanted(p); p.wanted != nil {
		if p.inputs, err = p.wanted.InputDigest(); err != nil {
			return err
		}
		p.inputsVersion = c.inputsVersion(p)
	}
	p.plan, err = release.Observe(ctx, c.engine, release.Request{
		Key: p.key(), Wanted: p.wanted, Baseline: baselineOf(p.app),
	})
	if err == nil {
		p.app.Status.Revisions = revisionsOf(p.plan.Observed)
	}
	if p.forceAt != "" {
		p.plan.Force()
	}
	p.holdIfBlocked()
	return err
}

// announceDrift makes drift visible before it is corrected: the status says so
// from the moment that it is seen.
func (c *Controller) announceDrift(ctx context.Context, p *pass) error {
	reason, message := driftOf(p, p.plan.Decision)
	if reason == "" {
		return nil
	}
	p.conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
	p.catchUp(reason, message)
	return c.commit(ctx, p)
}

// catchUp has Ready speak of the generation that the status does, where the status that
// would have said so was held back.
func (p *pass) catchUp(reason, message string) {
	ready := meta.FindStatusCondition(p.app.Status.Conditions, apimeta.ConditionReady)
	if ready == nil || ready.ObservedGeneration < p.app.Status.ObservedGeneration {
		p.conditions().MarkReconciling(reason, message)
	}
}

// driftOf says what somebody else changed; nothing when it is not drift that
// the decision is about.
func driftOf(p *pass, decision helm.Decision) (reason, message string) {
	switch decision.Cause {
	case helm.CauseDrift:
		return driftReason(decision.Drifts), release.Names(decision.Drifts)
	case helm.CauseReleaseChanged:
		if decision.Action == helm.ActionWait {
			return "", ""
		}
		record := p.plan.Observed.Record
		return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("Revision %d (%s) of the release was not made by this operator", record.Revision, record.Status)
	case helm.CauseNotInstalled:
		if deployed := p.observed.Status.DeployedRelease; deployed != nil && p.app.Status.ObservedGeneration >= 0 {
			return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("Release %s was uninstalled", deployed.Name)
		}
	case helm.CauseUnverified:
		if record := p.plan.Observed.Record; !isUnrecorded(p) {
			return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("The record of revision %d was changed", record.Revision)
		}
	case helm.CauseNone, helm.CauseInputsChanged, helm.CauseFailed, helm.CauseInterrupted, helm.CauseBaselineUnknown,
		helm.CauseRequested, helm.CauseOtherOwner:
	}
	return "", ""
}

// ensureRelease does what was decided, and writes down what came of it.
func (c *Controller) ensureRelease(ctx context.Context, p *pass) error {
	decision := p.plan.Decision
	if decision.Action == helm.ActionNone {
		return nil
	}
	wanted := p.wanted
	if wanted == nil {
		// What is deployed is repaired without knowing what is wanted.
		deployed := c.releaseOf(p.app)
		wanted = &deployed
	}
	deployed, err := c.engine.Execute(ctx, *wanted, decision, baselineOf(p.app))
	if decision.Action == helm.ActionRefuse {
		err = fmt.Errorf("%w: give the DemoApp another name, or have it take over the release with the annotation %s: \"true\"",
			err, releasev1alpha1.AnnotationAdoptRelease)
	}
	if err != nil && deployed != nil {
		// Some objects could be repaired.
		p.app.Status.Inventory = inventoryOf(deployed)
	}
	var busy *helm.BusyError
	if errors.As(err, &busy) {
		p.next = min(p.next, max(busy.RetryAfter, busyRetry))
		p.blockers = append(p.blockers, blocker{reason: releasev1alpha1.ReasonReleaseBusy, message: busy.Error()})
		p.plan.Withheld = true
		return nil
	}
	if err != nil {
		// The attempt may have left a record.
		if observed, err := c.engine.Observe(ctx, p.key(), helm.Baseline{Revisions: baselineOf(p.app).Revisions}); err == nil {
			p.app.Status.Revisions = revisionsOf(observed)
		}
		return err
	}
	c.refusals.forget(p.key())
	recordDeployed(p, deployed, decision, c.chart)
	// The plan was made before the change; what counts now is what came of it.
	if err := c.observeRelease(ctx, p); err != nil {
		return err
	}
	p.judged, p.unhealthy = false, ""
	c.awaitHealth(p)
	c.remediate(p)
	if p.willRetry() {
		p.next = min(p.next, retrySoon)
	}
	return nil
}

// couldNotBegin reports whether a pass ended before it could look at all that it
// needs: a cache is not filled yet.
func couldNotBegin(err error) bool {
	return errors.Is(err, helm.ErrNotSynced) || errors.Is(err, controller.ErrNotSynced)
}

// reportFailure puts an error into the conditions. It returns the error as the
// queue is to take it: one that trying again cannot help is terminal.
func (c *Controller) reportFailure(ctx context.Context, p *pass, err error) error {
	if couldNotBegin(err) {
		return err
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// The app's own deletion is on its way.
		p.next = min(p.next, terminatingRetry)
		return nil
	}
	if p.awaitsKind(err) {
		err = p.redactError(err)
		p.conditions().MarkReconciling(v1alpha1.ReasonGatewayAPIMissing, err.Error())
		return err
	}
	action := p.plan.Decision.Action
	reason, terminal := release.FailureReason(err, action)
	err = p.redactError(err)
	conditions := p.conditions()
	if reason == apimeta.ReasonObserveFailed && !terminal {
		// Nothing was attempted. What is deployed does as well as before.
		if meta.FindStatusCondition(p.app.Status.Conditions, apimeta.ConditionReady) == nil || p.app.Status.DeployedRelease == nil {
			conditions.MarkReconciling(reason, err.Error())
		}
		return err
	}
	if errors.Is(err, controller.ErrTooManyWaiting) {
		// An attempt that found no room to wait says nothing about the release.
		conditions.MarkReconciling(reason, err.Error())
		return err
	}
	c.recordFailure(ctx, p, terminal)
	if !isRepair(action) {
		conditions.Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, reason, err.Error())
	}
	if terminal && action != helm.ActionRollback &&
		chooseRemedy(p.app.Spec.Remediation, currentFailures(p).Consecutive, lastGood(p)) == rollBack {
		terminal = false // There is something else to try.
	}
	switch {
	case isRepair(action):
		p.beginRepairFailure(reason, err.Error(), terminal)
	case terminal, action == helm.ActionInstall, action == helm.ActionUpgrade:
		conditions.Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, reason, err.Error())
	}
	if !terminal {
		conditions.MarkReconciling(reason, err.Error())
		return err
	}
	conditions.MarkStalled(reason, err.Error())
	p.answerForce(action)
	if !p.plan.Withheld {
		p.app.Status.ObservedGeneration = p.app.Generation
	}
	p.next = min(p.next, c.refusals.note(p, reason, err.Error(), err))
	return controller.Terminal(err)
}
