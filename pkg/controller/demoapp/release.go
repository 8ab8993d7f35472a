// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// refusedRetry is when a change that was refused is tried again although
// nothing is known to have changed: what refused it may be gone.
const refusedRetry = 5 * time.Minute

// observeRelease looks at the release and decides what is to be done.
func (c *Controller) observeRelease(ctx context.Context, p *pass) error {
	plan, err := release.Observe(ctx, c.engine, release.Request{
		Key:      p.key(),
		Wanted:   c.wanted(p),
		Held:     len(p.blockers) > 0,
		Baseline: baselineOf(p.app.Status),
	})
	if err != nil {
		return err
	}
	p.plan = plan
	return nil
}

// restsOnFailure reports whether the last attempt at this very generation was
// refused, and nothing has happened since that could make another one end
// differently.
func (c *Controller) restsOnFailure(p *pass) bool {
	stalled := meta.FindStatusCondition(p.observed.Status.Conditions, v1alpha1.ConditionStalled)
	failed := meta.FindStatusCondition(p.observed.Status.Conditions, v1alpha1.ConditionFailed)
	const news = controller.SpecChange | controller.PeriodicResync | controller.Retry | controller.DependencyReady
	if stalled == nil || failed == nil || p.why&news != 0 || failed.ObservedGeneration != p.app.Generation {
		return false
	}
	p.next = min(p.next, controller.Jitter(refusedRetry))
	return p.plan.Decision.Action != helm.ActionNone
}

// announceDrift makes drift visible before it is corrected: the status says so
// from the moment that it is seen.
func (c *Controller) announceDrift(ctx context.Context, p *pass) error {
	reason, message := driftOf(p)
	if reason == "" {
		return nil
	}
	p.conditions().Set(v1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
	return c.commit(ctx, p)
}

// driftOf says what somebody else changed; nothing when it is not drift that
// makes the release change.
func driftOf(p *pass) (reason, message string) {
	switch p.plan.Decision.Cause {
	case helm.CauseDrift:
		return v1alpha1.ReasonObjectsChanged, release.Names(p.plan.Decision.Drifts)
	case helm.CauseReleaseChanged:
		if p.plan.Decision.Action == helm.ActionWait {
			return "", ""
		}
		record := p.plan.Observed.Record
		return v1alpha1.ReasonReleaseChanged, fmt.Sprintf("Revision %d (%s) of the release was not made by this operator", record.Revision, record.Status)
	case helm.CauseNotInstalled:
		if deployed := p.observed.Status.DeployedRelease; deployed != nil && p.app.Status.ObservedGeneration >= 0 {
			return v1alpha1.ReasonReleaseChanged, fmt.Sprintf("Release %s was uninstalled", deployed.Name)
		}
	case helm.CauseNone, helm.CauseInputsChanged, helm.CauseFailed, helm.CauseInterrupted, helm.CauseBaselineUnknown:
	}
	return "", ""
}

// ensureRelease does what was decided, and writes down what came of it.
func (c *Controller) ensureRelease(ctx context.Context, p *pass) error {
	decision := p.plan.Decision
	if decision.Action == helm.ActionNone {
		return nil
	}
	wanted := c.wanted(p)
	if wanted == nil {
		wanted = &helm.Release{Namespace: p.app.Namespace, Name: p.app.Name, Chart: c.chart}
	}
	deployed, err := c.engine.Execute(ctx, *wanted, decision, baselineOf(p.app.Status))
	var busy *helm.BusyError
	if errors.As(err, &busy) {
		p.next = min(p.next, max(busy.RetryAfter, time.Second))
		p.blockers = append(p.blockers, blocker{reason: v1alpha1.ReasonReleaseBusy, message: busy.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	recordDeployed(p, deployed, decision)
	// The plan was made before the change; what counts now is what came of it.
	plan, err := release.Observe(ctx, c.engine, release.Request{
		Key: p.key(), Wanted: c.wanted(p), Held: len(p.blockers) > 0, Baseline: deployed.Baseline(),
	})
	if err != nil {
		return err
	}
	p.plan = plan
	return nil
}

// reportFailure puts an error into the conditions. It returns the error as the
// queue is to take it: one that trying again cannot help is terminal.
func (c *Controller) reportFailure(p *pass, err error) error {
	if errors.Is(err, helm.ErrNotSynced) {
		return err
	}
	action := p.plan.Decision.Action
	reason, terminal := release.FailureReason(err, action)
	err = redactError(p.apiKey, err)
	conditions := p.conditions()
	conditions.Set(v1alpha1.ConditionFailed, metav1.ConditionTrue, reason, err.Error())
	if terminal || action == helm.ActionInstall || action == helm.ActionUpgrade {
		conditions.Set(v1alpha1.ConditionDeployed, metav1.ConditionFalse, reason, err.Error())
	}
	if !terminal {
		conditions.MarkReconciling(reason, err.Error())
		return err
	}
	conditions.MarkStalled(reason, err.Error())
	p.app.Status.ObservedGeneration = p.app.Generation
	p.next = min(p.next, controller.Jitter(refusedRetry))
	return controller.Terminal(err)
}
