// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// Rollout configures how a change reaches the objects of a kind that have not changed
// themselves: another chart, other values of the operator, or a newer operator. The zero
// value has the default limits.
type Rollout struct {
	// Chart is the chart of all objects; nil if objects have charts of their own. With it,
	// an object that waits counts already before the first pass over it.
	Chart *chart.Chart
	// Limits bound the rollout. See [rollout.NewFleet].
	Limits rollout.Limits
	// ReleaseNamespace is the namespace of the releases of cluster-scoped objects.
	ReleaseNamespace string
}

// fleetObject is the part of an object that a fleet uses.
type fleetObject struct {
	Key        cache.ObjectName
	Generation int64
	Deleting   bool
	Status     releasev1alpha1.ReleaseStatus
}

// fleet rolls changes out to the objects of a kind that have not changed themselves. It
// upgrades a few objects at a time, and halts after too many failures. It implements
// [Rollouts].
type fleet struct {
	chart    *chart.Chart
	plural   string
	releases string
	observer Observer
	queue    rollout.ObjectQueue
	now      func() time.Time
	turns    *rollout.Fleet
}

// newRollouts returns the fleet of a loop's objects, and has the metrics of the loop count it. deps are
// the dependencies of the loop. It starts nothing.
func newRollouts[T kind.Object[T], S any](
	loop *kind.Loop[T, S], deps kind.Deps, observer Observer, status func(T) *releasev1alpha1.ReleaseStatus, config Rollout,
) (*fleet, error) {
	f := newFleet(loop.Queue(), observer, loop.GroupVersionKind().Kind+"s", config)
	f.now = deps.Clock.Now
	var err error
	f.turns, err = kind.NewFleet(loop, config.Limits, func(object T) rollout.Member {
		return f.member(fleetObject{cache.MetaObjectToName(object), object.GetGeneration(), object.GetDeletionTimestamp() != nil, *status(object)})
	})
	return f, err
}

// newFleet returns a fleet without turns.
func newFleet(queue rollout.ObjectQueue, observer Observer, plural string, config Rollout) *fleet {
	return &fleet{
		chart: config.Chart, plural: plural, releases: config.ReleaseNamespace, observer: observer, queue: queue, now: time.Now,
	}
}

// member describes an object before the first pass over it, and one of another process, whose
// release records this process does not cache. The status distinguishes failed objects from all
// other objects.
func (r *fleet) member(object fleetObject) rollout.Member {
	return rollout.Member{
		Key: object.Key, Deleting: object.Deleting,
		Recall: func(ctx context.Context) (rollout.Standing, bool) {
			// Without a baseline, the observer reads only the records, and waits for no cache
			// of objects.
			observed, err := r.observer.Observe(ctx, r.releaseOf(object), helm.Baseline{})
			return standing(r.candidate(object, observed)), err == nil
		},
		Failed: func() bool {
			return standing(r.candidate(object, helm.Snapshot{Record: recordOf(object.Status, r.chart)})) == rollout.Failed
		},
	}
}

// Counts counts the objects that wait for a change, get it, or failed with it.
func (r *fleet) Counts() rollout.Counts { return r.turns.Counts() }

// heldByRollout says how the status of an object shows that a [fleet] holds it, for metrics.
func heldByRollout() kind.Gate {
	return kind.Gate{Name: "rollout", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue, Reasons: rollout.Reasons}
}

// Gate implements [Rollouts]: an object that has not changed itself waits for its turn.
func (r *fleet) Gate(ctx context.Context, in GateInput) Verdict {
	stands := standing(candidateOf(in.Facts, in.Plan, *in.Status, r.turns.MayHalt()))
	if stands != rollout.Due || in.Plan.Next.Action != helm.ActionUpgrade {
		if stands == rollout.Due {
			stands = rollout.Settled
		}
		r.turns.Set(in.Key, stands)
		return Verdict{}
	}
	r.turns.Prepare(ctx)
	mayWait := waitsForTurn(in)
	switch {
	case in.Blocked:
		if answer := r.turns.Block(in.Key); answer != rollout.Queued && mayWait {
			return r.hold(in, answer)
		}
	case !mayWait:
		r.turns.Set(in.Key, rollout.Active)
	default:
		if answer := r.turns.Ask(in.Key, in.Created); answer != rollout.Granted {
			return r.hold(in, answer)
		}
	}
	return Verdict{}
}

// waitsForTurn reports whether an upgrade that is due waits for its turn. What the object
// changed itself, or what a user requests, does not wait.
func waitsForTurn(in GateInput) bool {
	return in.Plan.Next.Cause == helm.CauseInputsChanged && in.ForceAt == "" && !changedItself(in.Facts, in.Plan.Observed.Record, *in.Status)
}

// hold returns the verdict that holds the change.
func (r *fleet) hold(in GateInput, answer rollout.Answer) Verdict {
	what := fmt.Sprintf("A change of the operator's values for all %s", r.plural)
	if chart := in.Desired.Release.Chart; !in.Plan.Observed.Record.MadeFrom(chart) {
		what = fmt.Sprintf("Chart %s %s", chart.Name(), chart.Version())
	}
	reason, message := r.turns.Held(in.Key, what, answer)
	return holdUpgrade(reason, message, false)
}

// Settle implements [Rollouts]. A pass that did not observe the release does not change the
// state of the object. Neither does a failure that is lost: the retry would end the halt, because it
// does not know of the failure. Until the retry, the object keeps its turn.
func (r *fleet) Settle(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus, lost bool) {
	if plan.Observed.Record == nil {
		r.turns.MarkUnknown(f.Key)
		return
	}
	c := candidateOf(f, plan, s, r.turns.MayHalt())
	stands := standing(c)
	if lost && stands == rollout.Failed {
		r.turns.MarkUnknown(f.Key)
		return
	}
	r.turns.Set(f.Key, stands)
	if left := c.timeLeft(); stands == rollout.Active && left > 0 && !c.wasHealthyBefore() {
		r.queue.EnqueueAfter(f.Key, left, controller.HealthChange)
	}
}

// Forget implements [Rollouts].
func (r *fleet) Forget(key cache.ObjectName) { r.turns.Forget(key) }

// releaseOf returns the release of an object, according to its status.
func (r *fleet) releaseOf(object fleetObject) cache.ObjectName {
	release := cache.NewObjectName(cmp.Or(object.Key.Namespace, r.releases), object.Key.Name)
	if deployed := object.Status.DeployedRelease; deployed != nil {
		release.Name = deployed.Name
	}
	return release
}

// candidate is the state of an object before the first pass over it.
func (r *fleet) candidate(object fleetObject, observed helm.Snapshot) candidate {
	return candidate{
		generation: object.Generation, status: object.Status, observed: observed, chart: r.chart,
		now: r.now(), timeout: Timeout(releasev1alpha1.ReleasePolicy{}),
		suspended: meta.IsStatusConditionTrue(object.Status.Conditions, releasev1alpha1.ConditionSuspended),
	}
}
