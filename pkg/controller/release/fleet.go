// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// DefaultLimits bound the rollout of a kind that sets no limits.
var DefaultLimits = rollout.Limits{Active: 10, Failed: 3}

// haltNotice is the delay before waiting objects are reconciled after the rollout was
// halted or resumed. A failure that the first retry corrects is over by then, which saves
// thousands of status writes.
const haltNotice = 5 * time.Second

// Rollout configures how a change reaches the objects of a kind that have not changed
// themselves: another chart, other values of the operator, or a newer operator. The zero
// value has the default limits.
type Rollout struct {
	// Chart is the chart of all objects; nil if objects have charts of their own. With it,
	// an object that waits counts already before the first pass over it.
	Chart *chart.Chart
	// Limits bound the rollout. A limit of 0 is that of [DefaultLimits], and a negative one
	// means no limit.
	Limits rollout.Limits
	// ReleaseNamespace is the namespace of the releases of cluster-scoped objects.
	ReleaseNamespace string
}

// limits returns the limits with their defaults.
func (r Rollout) limits() rollout.Limits {
	limits := rollout.Limits{Active: cmp.Or(r.Limits.Active, DefaultLimits.Active), Failed: cmp.Or(r.Limits.Failed, DefaultLimits.Failed)}
	return rollout.Limits{Active: max(limits.Active, 0), Failed: max(limits.Failed, 0)}
}

// fleetQueue is the part of the queue of a kind that a fleet uses.
type fleetQueue interface {
	Enqueue(key cache.ObjectName, why controller.Reason)
	EnqueueAfter(key cache.ObjectName, d time.Duration, why controller.Reason)
	Shards() *controller.Shards
}

// fleetObject is the part of an object that a fleet uses.
type fleetObject struct {
	Key        cache.ObjectName
	Generation int64
	Deleting   bool
	Status     releasev1alpha1.ReleaseStatus
}

// Fleet rolls changes out to the objects of a kind that have not changed themselves. It
// upgrades a few objects at a time, and halts after too many failures. It implements
// [Rollouts].
type Fleet struct {
	chart    *chart.Chart
	plural   string
	limits   rollout.Limits
	releases string
	observer Observer
	queue    fleetQueue
	now      func() time.Time
	// get returns a cached object, and all returns those that are cached.
	get func(cache.ObjectName) (fleetObject, bool)
	all func() []fleetObject

	turns *rollout.Queue

	mu sync.Mutex
	// recalled is the number of shards that the process had taken at the last recall.
	recalled int
}

// NewFleet returns the fleet of a loop's objects, and has the metrics of the loop count it. deps are
// those of the loop. It starts nothing.
func NewFleet[T kind.Object[T], S any](
	loop *kind.Loop[T, S], deps kind.Deps, observer Observer, status func(T) *releasev1alpha1.ReleaseStatus, config Rollout,
) (*Fleet, error) {
	objectOf := func(object T) fleetObject {
		return fleetObject{cache.MetaObjectToName(object), object.GetGeneration(), object.GetDeletionTimestamp() != nil, *status(object)}
	}
	f := newFleet(loop.Queue(), observer, loop.GroupVersionKind().Kind+"s", config)
	f.now = deps.Clock.Now
	f.get = func(key cache.ObjectName) (fleetObject, bool) {
		object, ok := loop.Cached().Get(key)
		if !ok {
			return fleetObject{}, false
		}
		return objectOf(object), true
	}
	f.all = func() (found []fleetObject) {
		for _, indexer := range loop.Cached() {
			for _, item := range indexer.List() {
				if object, ok := item.(T); ok {
					found = append(found, objectOf(object))
				}
			}
		}
		return found
	}
	loop.CountRollout(f.turns.Counts)
	if loop.Queue().Shards() == nil {
		return f, nil
	}
	for _, informer := range deps.Informers {
		if _, err := controller.AddHandler("rollout elsewhere", informer, cache.TypedResourceEventHandlerFuncs[T]{
			AddFunc:    func(object T) { f.followElsewhere(objectOf(object)) },
			UpdateFunc: func(_, object T) { f.followElsewhere(objectOf(object)) },
			DeleteFunc: func(gone cache.DeletedObject[T]) {
				if key := gone.GetObjectName(); !loop.Queue().Shards().Holds(key.Namespace) {
					f.turns.Set(key, rollout.Settled)
				}
			},
		}); err != nil {
			return nil, fmt.Errorf("rollout of %s: %w", f.plural, err)
		}
	}
	return f, nil
}

func newFleet(queue fleetQueue, observer Observer, plural string, config Rollout) *Fleet {
	return &Fleet{
		chart: config.Chart, plural: plural, limits: config.limits(), releases: config.ReleaseNamespace, observer: observer, queue: queue, now: time.Now,
		turns: rollout.NewQueue(config.limits(),
			func(key cache.ObjectName) { queue.Enqueue(key, controller.DependencyReady) },
			func(key cache.ObjectName) {
				queue.EnqueueAfter(key, controller.Jitter(haltNotice), controller.DependencyReady)
			}),
	}
}

// Counts counts the objects that wait for a change, get it, or failed with it.
func (r *Fleet) Counts() rollout.Counts { return r.turns.Counts() }

// HeldByRollout is how an object tells that a [Fleet] holds it, for metrics.
func HeldByRollout() kind.Gate {
	return kind.Gate{Name: "rollout", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue, Reasons: rolloutReasons}
}

// Gate implements [Rollouts]: an object that has not changed itself waits for its turn.
func (r *Fleet) Gate(ctx context.Context, in GateInput) Verdict {
	stands := standing(candidateOf(in.Facts, in.Plan, *in.Status))
	if stands != rollout.Due || in.Plan.Next.Action != helm.ActionUpgrade {
		if stands == rollout.Due {
			stands = rollout.Settled
		}
		r.turns.Set(in.Key, stands)
		return in.EndHold(rolloutReasons)
	}
	r.recall(ctx)
	r.turns.SetActive(r.queue.Shards().Share(r.limits.Active))
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
	return in.EndHold(rolloutReasons)
}

// waitsForTurn reports whether an upgrade that is due waits for its turn. What the object
// changed itself, or what a user requests, does not wait.
func waitsForTurn(in GateInput) bool {
	return in.Plan.Next.Cause == helm.CauseInputsChanged && in.ForceAt == "" && !changedItself(in.Facts, in.Plan.Observed.Record, *in.Status)
}

// hold returns the verdict that holds the change. UpgradeHeld keeps the reason of the upgrade
// window.
func (r *Fleet) hold(in GateInput, answer rollout.Answer) Verdict {
	what := fmt.Sprintf("A change of the operator's values for all %s", r.plural)
	if chart := in.Desired.Release.Chart; !in.Plan.Observed.Record.MadeFrom(chart) {
		what = fmt.Sprintf("Chart %s %s", chart.Name(), chart.Version())
	}
	reason, message := releasev1alpha1.ReasonRolloutQueued, fmt.Sprintf(
		"%s waits for its turn: it is rolled out to %d %s at a time", what, r.limits.Active, r.plural)
	if answer != rollout.Queued {
		of := fmt.Sprintf("%s of at least %d namespaces", r.plural, r.limits.Failed)
		switch {
		case answer == rollout.HaltedNamespace && in.Key.Namespace == "":
			of = fmt.Sprintf("at least %d %s", r.limits.Failed, r.plural)
		case answer == rollout.HaltedNamespace:
			of = fmt.Sprintf("at least %d %s of this namespace", r.limits.Failed, r.plural)
		}
		reason, message = releasev1alpha1.ReasonRolloutHalted, fmt.Sprintf("%s is rolled out no further, since %s have failed "+
			"with it; it goes on when they recover, change or are deleted, and %s upgrades this one now",
			what, of, releasev1alpha1.AnnotationForceAt)
	}
	verdict := HoldUpgrade(reason, message, false)
	if in.isHeld() && !in.isHeldFor(rolloutReasons) {
		verdict.Condition = nil
	}
	return verdict
}

// Settle implements [Rollouts]. A pass that did not observe the release does not change the
// state of the object.
func (r *Fleet) Settle(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) {
	if plan.Observed.Record == nil {
		r.turns.MarkUnknown(f.Key)
		return
	}
	c := candidateOf(f, plan, s)
	stands := standing(c)
	r.turns.Set(f.Key, stands)
	if left := c.timeLeft(); stands == rollout.Active && left > 0 && !c.wasHealthyBefore() {
		r.queue.EnqueueAfter(f.Key, left, controller.HealthChange)
	}
}

// Forget implements [Rollouts]. An object whose shard the process has given back counts as one of
// another process.
func (r *Fleet) Forget(key cache.ObjectName) {
	r.turns.Set(key, rollout.Settled)
	if object, ok := r.get(key); ok {
		r.followElsewhere(object)
	}
}

// followElsewhere counts a failed object whose shard another process holds, so that failures halt
// the rollout in all processes. It does nothing for an object whose shard this process holds.
func (r *Fleet) followElsewhere(object fleetObject) {
	shards := r.queue.Shards()
	if shards.Holds(object.Key.Namespace) {
		return
	}
	stands := rollout.Settled
	if !object.Deleting && standing(r.candidateElsewhere(object)) == rollout.Failed {
		stands = rollout.FailedElsewhere
	}
	r.turns.Set(object.Key, stands)
	if _, ok := r.get(object.Key); !ok {
		r.turns.Set(object.Key, rollout.Settled) // Its deletion may have been handled before.
	}
	if shards.Holds(object.Key.Namespace) {
		r.queue.Enqueue(object.Key, controller.HealthChange) // The process has taken the shard meanwhile.
	}
}

// recall restores the rollout state once for the shards that the process has taken.
func (r *Fleet) recall(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if opened := r.queue.Shards().Opened(); opened != r.recalled {
		r.recallAll(ctx)
		r.recalled = opened
	}
}

// recallAll restores the rollout state that earlier processes left in statuses and
// records. Each object that counts is reconciled soon, because the cache may be stale.
func (r *Fleet) recallAll(ctx context.Context) {
	for _, object := range r.all() {
		if object.Deleting || !r.queue.Shards().Holds(object.Key.Namespace) {
			continue
		}
		// Without a baseline, the observer reads only the records, and waits for no cache
		// of objects.
		observed, err := r.observer.Observe(ctx, r.releaseOf(object), helm.Baseline{})
		if err != nil {
			continue
		}
		if r.turns.Recall(object.Key, standing(r.candidate(object, observed))) {
			r.queue.Enqueue(object.Key, controller.HealthChange)
		}
	}
}

// releaseOf returns the release of an object, as far as the status tells.
func (r *Fleet) releaseOf(object fleetObject) cache.ObjectName {
	release := cache.NewObjectName(cmp.Or(object.Key.Namespace, r.releases), object.Key.Name)
	if deployed := object.Status.DeployedRelease; deployed != nil {
		release.Name = deployed.Name
	}
	return release
}

// candidate is the state of an object before the first pass over it.
func (r *Fleet) candidate(object fleetObject, observed helm.Snapshot) candidate {
	return candidate{
		generation: object.Generation, status: object.Status, observed: observed, chart: r.chart,
		now: r.now(), timeout: Timeout(releasev1alpha1.ReleasePolicy{}),
		suspended: meta.IsStatusConditionTrue(object.Status.Conditions, releasev1alpha1.ConditionSuspended),
	}
}

// candidateElsewhere is the state of an object by its status alone, because the process caches no
// release records of other shards. It tells failed objects from all others.
func (r *Fleet) candidateElsewhere(object fleetObject) candidate {
	return r.candidate(object, helm.Snapshot{Record: recordOf(object.Status, r.chart)})
}
