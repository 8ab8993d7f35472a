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
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// rolloutReasons are the reasons of UpgradeHeld that are about the rollout of a newer
// chart.
var rolloutReasons = []string{releasev1alpha1.ReasonRolloutQueued, releasev1alpha1.ReasonRolloutHalted}

// haltNotice is the delay before waiting objects are reconciled after the rollout was
// halted or resumed. A failure that the first retry corrects is over by then, which saves
// thousands of status writes.
const haltNotice = 5 * time.Second

// RolloutConfig configures a [Rollout].
type RolloutConfig struct {
	// Chart is rolled out to objects that messages call Plural.
	Chart  *chart.Chart
	Plural string
	Limits rollout.Limits
	// Observer observes releases without a request.
	Observer release.Observer
	// Queue is the queue of the objects.
	Queue interface {
		Enqueue(key cache.ObjectName, why controller.Reason)
		EnqueueAfter(key cache.ObjectName, d time.Duration, why controller.Reason)
		Shards() *controller.Shards
	}
	// Objects returns all objects of the process's shards that are not being deleted.
	Objects func() []RolloutObject
}

// RolloutObject is the part of an object that a rollout uses.
type RolloutObject struct {
	Key        cache.ObjectName
	Generation int64
	Suspended  bool
	Status     releasev1alpha1.ReleaseStatus
}

// Rollout is the gate of a newer chart. It upgrades a few objects at a time, and halts
// after too many failures. It implements [release.Rollouts].
type Rollout struct {
	config RolloutConfig
	queue  *rollout.Queue

	mu sync.Mutex
	// recalled is the number of shards that the process had taken at the last recall.
	recalled int
}

// NewRollout returns the gate. It starts nothing.
func NewRollout(config RolloutConfig) *Rollout {
	return &Rollout{config: config, queue: rollout.NewQueue(config.Limits,
		func(key cache.ObjectName) { config.Queue.Enqueue(key, controller.DependencyReady) },
		func(key cache.ObjectName) {
			config.Queue.EnqueueAfter(key, controller.Jitter(haltNotice), controller.DependencyReady)
		})}
}

// Counts counts the objects that wait for the chart, are being upgraded to it, or failed
// with it.
func (r *Rollout) Counts() rollout.Counts { return r.queue.Counts() }

// Gate implements [release.Rollouts]: an object whose upgrade changes only the chart
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
	r.recall(ctx)
	r.queue.SetActive(r.config.Queue.Shards().Share(r.config.Limits.Active))
	inputs := in.OwnDigest()
	asked, waits := r.queue.Asked(in.Key)
	if !waits {
		asked = inputs
	}
	chartOnly := asked == inputs && r.isChartOnly(in)
	switch {
	case in.Blocked:
		if answer := r.queue.Block(in.Key, asked); answer != rollout.Queued && chartOnly {
			return r.hold(in, answer)
		}
	case !chartOnly:
		r.queue.Set(in.Key, rollout.Active)
	default:
		if answer := r.queue.Ask(in.Key, in.Created, inputs); answer != rollout.Granted {
			return r.hold(in, answer)
		}
	}
	return endHold(in, rolloutReasons)
}

// isChartOnly reports whether the upgrade changes only the chart, and is not forced by a
// user. The caller compares the inputs with those for which the object began to wait. A
// failure with the chart and other inputs is the object's own change, too.
func (r *Rollout) isChartOnly(in release.GateInput) bool {
	return in.Plan.Next.Cause == helm.CauseInputsChanged && in.ForceAt == "" &&
		lastGeneration(*in.Status, false) == in.Generation &&
		!failedWithChart(in.Generation, *in.Status, in.Plan.Observed.Record, r.config.Chart, "")
}

// hold returns the verdict that holds the newer chart. UpgradeHeld keeps the reason of
// the upgrade window.
func (r *Rollout) hold(in release.GateInput, answer rollout.Answer) release.Verdict {
	chart, limits, plural := r.config.Chart, r.config.Limits, r.config.Plural
	reason, message := releasev1alpha1.ReasonRolloutQueued, fmt.Sprintf(
		"Chart %s %s waits for its turn: it is rolled out to %d %s at a time", chart.Name(), chart.Version(), limits.Active, plural)
	if answer != rollout.Queued {
		of := fmt.Sprintf("%s of at least %d namespaces", plural, limits.Failed)
		if answer == rollout.HaltedNamespace {
			of = fmt.Sprintf("at least %d %s of this namespace", limits.Failed, plural)
		}
		reason, message = releasev1alpha1.ReasonRolloutHalted, fmt.Sprintf("Chart %s %s is rolled out no further, since %s have failed "+
			"with it; it goes on when they recover, change or are deleted, and %s upgrades this one now",
			chart.Name(), chart.Version(), of, releasev1alpha1.AnnotationForceAt)
	}
	verdict := held(reason, message, false)
	if isHeldFor(in, windowReasons) {
		verdict.Condition = nil
	}
	return verdict
}

// Settle implements [release.Rollouts]. A pass that did not observe the release does not
// change the state of the object.
func (r *Rollout) Settle(f release.Facts, plan release.Plan, s releasev1alpha1.ReleaseStatus) {
	if plan.Observed.Record == nil {
		r.queue.MarkUnknown(f.Key)
		return
	}
	r.queue.Set(f.Key, r.standing(f, plan, s))
}

// Forget implements [release.Rollouts].
func (r *Rollout) Forget(key cache.ObjectName) { r.queue.Set(key, rollout.Settled) }

// FollowElsewhere counts a failed object whose shard another process holds, so that failures halt
// the rollout in all processes. It does nothing for an object whose shard this process holds.
func (r *Rollout) FollowElsewhere(object RolloutObject) {
	shards := r.config.Queue.Shards()
	if shards.Holds(object.Key.Namespace) {
		return
	}
	stands := rollout.Settled
	if standingByStatus(object, r.config.Chart) == rollout.Failed {
		stands = rollout.FailedElsewhere
	}
	r.queue.Set(object.Key, stands)
	if shards.Holds(object.Key.Namespace) {
		r.config.Queue.Enqueue(object.Key, controller.HealthChange) // The process has taken the shard meanwhile.
	}
}

func (r *Rollout) standing(f release.Facts, plan release.Plan, s releasev1alpha1.ReleaseStatus) rollout.Standing {
	return standing(f.Generation, f.Desired.Policy.Suspend, s, plan.Observed, r.config.Chart, f.InputVersion)
}

// recall restores the rollout state once for the shards that the process has taken.
func (r *Rollout) recall(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if opened := r.config.Queue.Shards().Opened(); opened != r.recalled {
		r.recallAll(ctx)
		r.recalled = opened
	}
}

// recallAll restores the rollout state that earlier processes left in statuses and
// records. Each object that counts is reconciled soon, because the cache may be stale.
func (r *Rollout) recallAll(ctx context.Context) {
	for _, object := range r.config.Objects() {
		// Without a baseline, the observer reads only the records, and waits for no cache
		// of objects.
		observed, err := r.config.Observer.Observe(ctx, object.Key, helm.Baseline{})
		if err != nil {
			continue
		}
		if r.queue.Recall(object.Key, standing(object.Generation, object.Suspended, object.Status, observed, r.config.Chart, "")) {
			r.config.Queue.Enqueue(object.Key, controller.HealthChange)
		}
	}
}
