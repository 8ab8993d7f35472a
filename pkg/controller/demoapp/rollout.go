// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

// rolloutReasons are those of UpgradeHeld that are about the rollout of a newer
// chart.
var rolloutReasons = []string{releasev1alpha1.ReasonRolloutQueued, releasev1alpha1.ReasonRolloutHalted}

// haltNotice is when those that wait look again after the rollout was halted or
// goes on. A failure that the first retry mends is over by then, and not worth
// thousands of statuses.
const haltNotice = 5 * time.Second

// newRollouts returns the queue of those that wait for a newer chart. It wakes
// them through the controller's own queue.
func newRollouts(limits rollout.Limits, queue func() *controller.Controller) *rollout.Queue {
	return rollout.NewQueue(limits,
		func(key cache.ObjectName) { queue().Enqueue(key, controller.DependencyReady) },
		func(key cache.ObjectName) {
			queue().EnqueueAfter(key, controller.Jitter(haltNotice), controller.DependencyReady)
		})
}

// Rollouts are how many apps wait for the operator's chart, are on their way to
// it, and have failed with it.
func (c *Controller) Rollouts() rollout.Counts { return c.rollouts.Counts() }

// holdForRollout is the gate of a newer chart: an app that gets nothing else by
// its upgrade waits for its turn. It is the last of the gates, since an app that
// something else holds takes no turn.
func (c *Controller) holdForRollout(ctx context.Context, p *pass) {
	standing := rolloutStanding(p.app, p.plan.Observed, c.chart, p.inputsVersion)
	if standing != rollout.Due || p.plan.Wanted.Action != helm.ActionUpgrade {
		if standing == rollout.Due {
			standing = rollout.Settled
		}
		c.rollouts.Set(p.key(), standing)
		p.endRolloutHold()
		return
	}
	c.recall.Do(func() { c.recallRollouts(ctx) })
	inputs := p.ownInputs()
	asked, waits := c.rollouts.Asked(p.key())
	if !waits {
		asked = inputs
	}
	switch chartOnly := p.isChartOnly(c.chart) && asked == inputs; {
	case len(p.blockers) > 0:
		if c.rollouts.StandAside(p.key(), asked) && chartOnly {
			c.holdRollout(p, releasev1alpha1.ReasonRolloutHalted)
			return
		}
	case !chartOnly:
		c.rollouts.Set(p.key(), rollout.Active)
	default:
		switch c.rollouts.Ask(p.key(), p.app.CreationTimestamp.Time, inputs) {
		case rollout.Queued:
			c.holdRollout(p, releasev1alpha1.ReasonRolloutQueued)
			return
		case rollout.Halted:
			c.holdRollout(p, releasev1alpha1.ReasonRolloutHalted)
			return
		case rollout.Granted:
		}
	}
	p.endRolloutHold()
}

// isChartOnly reports whether the chart is all that the upgrade would change, and
// nobody forces it; but for key and values, which are the app's own change when they
// are others than those with which it began to wait, or with which it failed.
func (p *pass) isChartOnly(chart *helm.Chart) bool {
	return p.plan.Wanted.Cause == helm.CauseInputsChanged && p.forceAt == "" &&
		lastGeneration(p.app.Status, false) == p.app.Generation &&
		!failedWithChart(p.app, p.plan.Observed.Record, chart, "")
}

// deployedGeneration is that of the spec which the last success was made of.
func deployedGeneration(s v1alpha1.DemoAppStatus) int64 { return lastGeneration(s, true) }

// lastGeneration is that of the spec which the last install or upgrade was made of,
// or the last one that succeeded, as far as the status tells; 0 when it does not. The
// observed generation may be ahead of it: it is that of the spec which was looked at
// when a person has to act.
func lastGeneration(s v1alpha1.DemoAppStatus, succeeded bool) int64 {
	deployed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDeployed)
	if deployed != nil && deployed.Status == metav1.ConditionTrue {
		return deployed.ObservedGeneration
	}
	for _, entry := range s.History {
		made := entry.Action == releasev1alpha1.HistoryInstall || entry.Action == releasev1alpha1.HistoryUpgrade
		if made && (entry.Outcome == releasev1alpha1.HistorySucceeded || !succeeded) {
			return entry.Generation
		}
	}
	return 0
}

// ownInputs identify what is wanted but for what the cluster supports, which changes
// for many apps at a time: none of them is to pass those that wait for the chart.
func (p *pass) ownInputs() string {
	if p.app.Spec.Ingress == nil || p.wanted == nil {
		return p.inputs
	}
	if inputs, err := withExposure(*p.wanted, exposure{}).InputDigest(); err == nil {
		return inputs
	}
	return p.inputs
}

// holdRollout says that the newer chart waits, and why. What keeps the condition
// occupied, which the window does, comes before it.
func (c *Controller) holdRollout(p *pass, reason string) {
	message := fmt.Sprintf("Chart %s %s waits for its turn: it is rolled out to %d DemoApps at a time",
		c.chart.Name(), c.chart.Version(), c.rolloutLimits.Active)
	if reason == releasev1alpha1.ReasonRolloutHalted {
		message = fmt.Sprintf("Chart %s %s is rolled out no further, since %d DemoApps or more have failed with it; "+
			"it goes on when they recover, change or are deleted, and %s upgrades this one now",
			c.chart.Name(), c.chart.Version(), c.rolloutLimits.Failed, releasev1alpha1.AnnotationForceAt)
	}
	held := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionUpgradeHeld)
	if held == nil || slices.Contains(rolloutReasons, held.Reason) {
		p.conditions().Set(releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, reason, message)
	}
	p.blockers = append(p.blockers, blocker{reason: reason, message: message})
}

// endRolloutHold says that the upgrade does not wait for its turn.
func (p *pass) endRolloutHold() {
	held := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionUpgradeHeld)
	if held != nil && slices.Contains(rolloutReasons, held.Reason) {
		p.conditions().Remove(releasev1alpha1.ConditionUpgradeHeld)
	}
}

// settleRollout notes how the app does with the chart after the pass. A pass that
// did not come to look at the release tells nothing.
func (c *Controller) settleRollout(p *pass) {
	if p.plan.Observed.Record == nil {
		c.rollouts.Miss(p.key())
		return
	}
	c.rollouts.Set(p.key(), rolloutStanding(p.app, p.plan.Observed, c.chart, p.inputsVersion))
}

// recallRollouts takes in what earlier processes have begun. Each app that counts
// is looked at soon, since the cache may be late.
func (c *Controller) recallRollouts(ctx context.Context) {
	for _, indexer := range c.cached {
		for _, item := range indexer.List() {
			app, ok := item.(*v1alpha1.DemoApp)
			if !ok || app.DeletionTimestamp != nil {
				continue
			}
			key := cache.MetaObjectToName(app)
			// Without a baseline, it tells of the records alone, and waits for nothing.
			observed, err := c.engine.Observe(ctx, key, helm.Baseline{})
			if err == nil && c.rollouts.Recall(key, rolloutStanding(app, observed, c.chart, "")) {
				c.queue.Enqueue(key, controller.HealthChange)
			}
		}
	}
}

// rolloutStanding tells from what is stored how an app does with the chart. The
// inputs are those of pass.inputsVersion, and empty where they are not known.
//
// An app that failed with the chart before as well says nothing about this one,
// nor does one that was not healthy with it when it is not healthy now. A
// suspended one is left alone. None of them counts.
func rolloutStanding(app *v1alpha1.DemoApp, observed helm.Snapshot, chart *helm.Chart, inputs string) rollout.Standing {
	record, s := observed.Record, app.Status
	if record == nil || !record.Own {
		return rollout.Settled
	}
	made := record.MadeFrom(chart)
	switch {
	case made && (int64(record.Revision) <= s.LastGoodRevision || !cameFromAnotherChart(s, observed, chart)):
		return rollout.Settled
	case failedWithChart(app, record, chart, inputs):
		if failedBefore(s.History, chart) {
			return rollout.Settled
		}
		return rollout.Failed
	case !made:
		return rollout.Due
	case app.Spec.Suspend, !wasHealthyBefore(s, observed, chart):
		return rollout.Settled
	}
	stalled := meta.FindStatusCondition(s.Conditions, apimeta.ConditionStalled)
	if stalled != nil && (stalled.Reason == apimeta.ReasonUnhealthy || stalled.Reason == releasev1alpha1.ReasonHealthTimeout) {
		return rollout.Failed
	}
	return rollout.Active
}

// cameFromAnotherChart tells a release that has got the chart, and was not seen
// healthy with it, from one that was made with it.
func cameFromAnotherChart(s v1alpha1.DemoAppStatus, observed helm.Snapshot, chart *helm.Chart) bool {
	if before := observed.LastGood; before != nil && before.Own && !before.MadeFrom(chart) {
		return true
	}
	return slices.ContainsFunc(s.History, func(entry releasev1alpha1.HistoryEntry) bool {
		return entry.Reason == releasev1alpha1.UpgradeReasonChartChanged && entry.ChartVersion == chart.Version() &&
			entry.Revision > s.LastGoodRevision
	})
}

// wasHealthyBefore reports whether the last revision with another chart was
// healthy once, as far as it is known.
func wasHealthyBefore(s v1alpha1.DemoAppStatus, observed helm.Snapshot, chart *helm.Chart) bool {
	before := observed.LastGood
	if before == nil || before.MadeFrom(chart) {
		return s.LastGoodRevision > 0
	}
	return s.LastGoodRevision >= int64(before.Revision)
}

// failedWithChart reports whether the last attempt at the app failed with the
// chart.
func failedWithChart(app *v1alpha1.DemoApp, record *helm.Record, chart *helm.Chart, inputs string) bool {
	failures := app.Status.Failures
	if failures == nil || failures.Consecutive == 0 || failures.Generation != app.Generation {
		return false
	}
	if inputs != "" {
		return failures.Inputs == inputs
	}
	return record.MadeFrom(chart) || slices.ContainsFunc(app.Status.History, func(entry releasev1alpha1.HistoryEntry) bool {
		return entry.Outcome == releasev1alpha1.HistoryFailed && entry.Generation == app.Generation && entry.ChartVersion == chart.Version()
	})
}

// failedBefore reports whether what came before the first failure with the chart
// was a failure, too, or was rolled back.
func failedBefore(history []releasev1alpha1.HistoryEntry, chart *helm.Chart) bool {
	tried := false
	for _, entry := range history {
		failed := entry.Outcome == releasev1alpha1.HistoryFailed
		switch {
		case failed && entry.ChartVersion == chart.Version():
			tried = true
		case tried:
			return failed || entry.Action == releasev1alpha1.HistoryRollback
		}
	}
	return false
}
