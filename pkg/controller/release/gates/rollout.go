// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

// rolloutReasons are those of UpgradeHeld that are about the rollout of a newer
// chart.
var rolloutReasons = []string{releasev1alpha1.ReasonRolloutQueued, releasev1alpha1.ReasonRolloutHalted}

// haltNotice is when those that wait look again after the rollout was halted or
// goes on. A failure that the first retry corrects is over by then, and not worth
// thousands of statuses.
const haltNotice = 5 * time.Second

// RolloutConfig is what a [Rollout] is made of.
type RolloutConfig struct {
	// Chart is what is rolled out, to objects that Plural names in messages.
	Chart  *helm.Chart
	Plural string
	Limits rollout.Limits
	// Observer observes releases without a request.
	Observer release.Observer
	// Queue is that of the objects.
	Queue interface {
		Enqueue(key cache.ObjectName, why controller.Reason)
		EnqueueAfter(key cache.ObjectName, d time.Duration, why controller.Reason)
	}
	// Objects are all objects that are not being deleted.
	Objects func() []RolloutObject
}

// RolloutObject is what a rollout knows of an object.
type RolloutObject struct {
	Key        cache.ObjectName
	Generation int64
	Suspended  bool
	Status     releasev1alpha1.ReleaseStatus
}

// Rollout is the gate of a newer chart: a few objects get it at a time, and no further
// ones when too many failed with it. It implements [release.Rollouts].
type Rollout struct {
	config RolloutConfig
	queue  *rollout.Queue
	recall sync.Once
}

// NewRollout returns the gate. It starts nothing.
func NewRollout(config RolloutConfig) *Rollout {
	return &Rollout{config: config, queue: rollout.NewQueue(config.Limits,
		func(key cache.ObjectName) { config.Queue.Enqueue(key, controller.DependencyReady) },
		func(key cache.ObjectName) {
			config.Queue.EnqueueAfter(key, controller.Jitter(haltNotice), controller.DependencyReady)
		})}
}

// Counts are how many objects wait for the chart, are on their way to it, and have failed
// with it.
func (r *Rollout) Counts() rollout.Counts { return r.queue.Counts() }

// Gate implements [release.Rollouts]: an object that gets nothing else by its upgrade
// waits for its turn.
func (r *Rollout) Gate(ctx context.Context, in release.GateInput) release.Verdict {
	stands := r.standing(in.Facts, in.Plan, *in.Status)
	if stands != rollout.Due || in.Plan.Next.Action != helm.ActionUpgrade {
		if stands == rollout.Due {
			stands = rollout.Settled
		}
		r.queue.Set(in.Key, stands)
		return endHold(in, rolloutReasons)
	}
	r.recall.Do(func() { r.recallAll(ctx) })
	inputs := in.OwnDigest()
	asked, waits := r.queue.Asked(in.Key)
	if !waits {
		asked = inputs
	}
	chartOnly := asked == inputs && r.isChartOnly(in)
	switch {
	case in.Blocked:
		if r.queue.StandAside(in.Key, asked) && chartOnly {
			return r.hold(in, releasev1alpha1.ReasonRolloutHalted)
		}
	case !chartOnly:
		r.queue.Set(in.Key, rollout.Active)
	default:
		switch r.queue.Ask(in.Key, in.Created, inputs) {
		case rollout.Queued:
			return r.hold(in, releasev1alpha1.ReasonRolloutQueued)
		case rollout.Halted:
			return r.hold(in, releasev1alpha1.ReasonRolloutHalted)
		case rollout.Granted:
		}
	}
	return endHold(in, rolloutReasons)
}

// isChartOnly reports whether the chart is all that the upgrade would change, and no user
// forces it. Key and values are the object's own change where they differ from those with
// which it began to wait, or with which it failed.
func (r *Rollout) isChartOnly(in release.GateInput) bool {
	return in.Plan.Next.Cause == helm.CauseInputsChanged && in.ForceAt == "" &&
		lastGeneration(*in.Status, false) == in.Generation &&
		!failedWithChart(in.Generation, *in.Status, in.Plan.Observed.Record, r.config.Chart, "")
}

// hold is the verdict that the newer chart waits, and why. UpgradeHeld keeps the reason of
// the window.
func (r *Rollout) hold(in release.GateInput, reason string) release.Verdict {
	chart := r.config.Chart
	message := fmt.Sprintf("Chart %s %s waits for its turn: it is rolled out to %d %s at a time",
		chart.Name(), chart.Version(), r.config.Limits.Active, r.config.Plural)
	if reason == releasev1alpha1.ReasonRolloutHalted {
		message = fmt.Sprintf("Chart %s %s is rolled out no further, since %d %s or more have failed with it; "+
			"it goes on when they recover, change or are deleted, and %s upgrades this one now",
			chart.Name(), chart.Version(), r.config.Limits.Failed, r.config.Plural, releasev1alpha1.AnnotationForceAt)
	}
	verdict := held(reason, message, false)
	if isHeldFor(in, windowReasons) {
		verdict.Condition = nil
	}
	return verdict
}

// Settle implements [release.Rollouts]. A pass that did not come to observe the release
// tells nothing.
func (r *Rollout) Settle(f release.Facts, plan release.Plan, s releasev1alpha1.ReleaseStatus) {
	if plan.Observed.Record == nil {
		r.queue.Miss(f.Key)
		return
	}
	r.queue.Set(f.Key, r.standing(f, plan, s))
}

// Forget implements [release.Rollouts].
func (r *Rollout) Forget(key cache.ObjectName) { r.queue.Set(key, rollout.Settled) }

func (r *Rollout) standing(f release.Facts, plan release.Plan, s releasev1alpha1.ReleaseStatus) rollout.Standing {
	return standing(f.Generation, f.Desired.Policy.Suspend, s, plan.Observed, r.config.Chart, f.InputVersion)
}

// recallAll takes in what earlier processes have begun. Each object that counts gets a
// pass soon, because the cache may be late.
func (r *Rollout) recallAll(ctx context.Context) {
	for _, object := range r.config.Objects() {
		// Without a baseline, the observer tells of the records alone, and waits for nothing.
		observed, err := r.config.Observer.Observe(ctx, object.Key, helm.Baseline{})
		if err != nil {
			continue
		}
		if r.queue.Recall(object.Key, standing(object.Generation, object.Suspended, object.Status, observed, r.config.Chart, "")) {
			r.config.Queue.Enqueue(object.Key, controller.HealthChange)
		}
	}
}
