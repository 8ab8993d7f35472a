// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Engine is what a lifecycle needs of the Helm engine.
type Engine interface {
	Observer
	Execute(ctx context.Context, desired helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error)
	Explain(ctx context.Context, release cache.ObjectName, baseline helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error)
	Uninstall(ctx context.Context, release helm.Release, baseline helm.Baseline) error
	MarkFailed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	MarkDeployed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	InTheWay(ctx context.Context, object helm.ObjectReference) (string, error)
	Forget(release cache.ObjectName)
	HasSynced() bool
	Subscribe(func(release cache.ObjectName, change helm.Change))
}

// Rollouts is the part of a rollout of newer charts that a lifecycle uses.
type Rollouts interface {
	// Gate holds an upgrade that brings nothing but a newer chart until its turn comes.
	Gate(ctx context.Context, input GateInput) Verdict
	// Settle notes how the object does with the chart after a pass.
	Settle(f Facts, plan Plan, status releasev1alpha1.ReleaseStatus)
	// Forget lets go of an object that is gone or being deleted.
	Forget(key cache.ObjectName)
}

// Lifecycle runs the releases of one kind. It is safe for concurrent use.
type Lifecycle struct {
	engine   Engine
	gates    []Gate
	rollouts Rollouts
	recorder events.EventRecorder

	refusals      refusals
	ignored       ignoredRequests
	explanations  explanations
	inputVersions inputVersions
}

// New returns a lifecycle. The gates are asked before those of the kind, and the rollouts
// after them: an object that something else holds takes no turn.
func New(engine Engine, recorder events.EventRecorder, rollouts Rollouts, gates ...Gate) *Lifecycle {
	return &Lifecycle{engine: engine, recorder: recorder, rollouts: rollouts, gates: gates}
}

// Forget lets go of what is kept of an object that is gone.
func (l *Lifecycle) Forget(key cache.ObjectName) {
	l.refusals.forget(key)
	l.ignored.forget(key)
	l.explanations.forget(key)
	l.inputVersions.forget(key)
	l.rollouts.Forget(key)
	l.engine.Forget(key)
}

// Steps returns the steps of a kind with a release, for [kind.Kind].
func Steps[T kind.Object[T]](l *Lifecycle, binding Binding[T]) func(context.Context, *kind.Pass[T]) error {
	return func(ctx context.Context, p *kind.Pass[T]) error {
		s := &subject{
			pass: p, object: p.Object, status: binding.Status(p.Object),
			written: func() *releasev1alpha1.ReleaseStatus { return binding.Status(p.Observed) },
		}
		f := Facts{
			Key: p.Key(), UID: p.Object.GetUID(), Generation: p.Object.GetGeneration(),
			Created: p.Object.GetCreationTimestamp().Time, Reason: p.Reason, Now: p.Now,
		}
		f.Requested, f.ForceAt = l.observeRequest(s, f.Key)
		var err error
		f.Desired, err = binding.Desired(ctx, p)
		return l.reconcile(ctx, s, f, err)
	}
}

// subject is one object in one pass, whatever its kind is.
type subject struct {
	pass

	object interface {
		metav1.Object
		runtime.Object
	}
	// status is that of the object, which the steps change.
	status *releasev1alpha1.ReleaseStatus
	// written is the status that was written last.
	written func() *releasev1alpha1.ReleaseStatus
}

// pass is the part of [kind.Pass] that does not depend on the kind.
type pass interface {
	Conditions() status.Editor
	LookAgain(d time.Duration)
	Commit(ctx context.Context) error
	AfterCommit(f func(committed bool))
}

// reconcile makes one pass over a release. The error is that of the kind's Desired.
func (l *Lifecycle) reconcile(ctx context.Context, s *subject, f Facts, err error) error {
	ctx = withWait(ctx)
	var plan Plan
	// At the end, because the statuses then tell whose turn is next.
	s.AfterCommit(func(bool) { l.rollouts.Settle(f, plan, *s.status) })
	chart := f.Desired.Release.Chart
	s.Conditions().Set(releasev1alpha1.ConditionInitialized, metav1.ConditionTrue, releasev1alpha1.ReasonChartLoaded,
		fmt.Sprintf("Bound to chart %s %s", chart.Name(), chart.Version()))
	observed := false
	if err == nil {
		err = l.identify(&f)
	}
	if err == nil {
		plan, observed, err = l.steps(ctx, s, f)
	} else {
		err = l.reportFailure(ctx, s, f, plan, err)
	}
	if controller.IsPending(err) {
		return err
	}
	f.Desired.summarize(outcomeOf(f, plan, observed))
	if f.Requested && !couldNotBegin(err) {
		// The pass was made, whatever came of it. One that could not begin is made again.
		s.status.LastHandledRequestedAt = s.object.GetAnnotations()[releasev1alpha1.AnnotationRequestedAt]
	}
	return f.Desired.Redactor.Error(err)
}

// identify completes the facts with what identifies the desired release.
func (l *Lifecycle) identify(f *Facts) (err error) {
	if !f.Desired.Known {
		return nil
	}
	if f.Digest, err = f.Desired.Release.InputDigest(); err != nil {
		return err
	}
	f.InputVersion = l.inputVersions.of(f.Key, f.Digest, f.Desired.InputVersion)
	return nil
}

// steps gather, decide, act and report, in this order. They return the plan as it is at
// the end, and whether the pass reached its end and nothing held it.
func (l *Lifecycle) steps(ctx context.Context, s *subject, f Facts) (_ Plan, observed bool, _ error) {
	look, err := l.look(ctx, s, f, f.Desired.Blockers)
	if err != nil {
		return look.plan, false, l.reportFailure(ctx, s, f, look.plan, err)
	}
	f.Desired.summarize(outcomeOf(f, look.plan, false))
	look = l.passGates(ctx, s, f, look)
	if look.plan, err = l.applyDriftPolicy(ctx, s, f, look.plan); err != nil {
		return look.plan, false, l.reportFailure(ctx, s, f, look.plan, err)
	}
	look = suspend(s, f, look)
	if l.restsRefused(ctx, s, f, look.plan) {
		return look.plan, false, nil
	}
	if err := l.announce(ctx, s, f, look); err != nil {
		return look.plan, false, err
	}
	acted, err := l.act(ctx, s, f, &look)
	if err == nil && acted {
		// The plan was made before the change; what counts now is what came of it.
		look, err = l.look(ctx, s, f, look.blockers)
		if look.willRetry() {
			s.LookAgain(retrySoon)
		}
	}
	if err != nil {
		return look.plan, false, l.reportFailure(ctx, s, f, look.plan, err)
	}
	return look.plan, report(s, f, look), nil
}

// look is what a pass finds out about a release and decides on.
type look struct {
	plan     Plan
	blockers []Blocker
	health   health
}

// willRetry reports whether the deployed revision was not healthy in time and another is
// to follow.
func (k look) willRetry() bool {
	return k.health.late != "" && k.plan.RollsOut() && !k.plan.Withheld
}

// look observes the release and decides on it, given what holds a change.
func (l *Lifecycle) look(ctx context.Context, s *subject, f Facts, blockers []Blocker) (look, error) {
	plan, err := l.observe(ctx, s, f)
	if err != nil {
		return look{}, err
	}
	found := look{}
	found.plan, found.blockers = plan.holdIfBlocked(blockers)
	found.health = judgeHealth(f, found.plan, *s.status)
	if found.health.timeLeft > 0 {
		s.LookAgain(found.health.timeLeft)
	}
	if found.health.late != "" {
		reportLate(s, f, found.health)
		if f.Desired.Policy.Remediation != nil {
			found.plan = found.plan.next(helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed})
		}
	}
	chosen := remediate(f, found.plan, *s.status)
	found.plan = chosen.plan
	found.blockers = reportRemedy(s, chosen, found.blockers)
	return found, nil
}

// passGates asks all gates, although one of them would do to hold the change: the status
// shows everything that is in the way.
func (l *Lifecycle) passGates(ctx context.Context, s *subject, f Facts, found look) look {
	gates := append(append([]Gate{}, l.gates...), f.Desired.Gates...)
	for _, gate := range append(gates, l.rollouts.Gate) {
		verdict := gate(ctx, GateInput{Facts: f, Plan: found.plan, Status: s.status, Blocked: len(found.blockers) > 0})
		s.Conditions().Remove(verdict.Remove...)
		if c := verdict.Condition; c != nil {
			s.Conditions().Set(c.Type, c.Status, c.Reason, c.Message)
		}
		if verdict.LookAgain > 0 {
			s.LookAgain(verdict.LookAgain)
		}
		if verdict.First {
			found.blockers = append(append([]Blocker{}, verdict.Blockers...), found.blockers...)
		} else {
			found.blockers = append(append([]Blocker{}, found.blockers...), verdict.Blockers...)
		}
	}
	found.plan, found.blockers = found.plan.holdIfBlocked(found.blockers)
	return found
}

func (d Desired) summarize(outcome Outcome) {
	if d.Summarize != nil {
		d.Summarize(outcome)
	}
}

// outcomeOf is how the release stands, for the kind's own status.
func outcomeOf(f Facts, plan Plan, observed bool) Outcome {
	return Outcome{
		Settled: f.Desired.Known && plan.isSettled(), RolledBack: plan.Next.RolledBack, Observed: observed,
	}
}

// couldNotBegin reports whether a pass ended before it could look at all that it
// needs: a cache is not filled yet.
func couldNotBegin(err error) bool {
	return errors.Is(err, helm.ErrNotSynced) || errors.Is(err, controller.ErrNotSynced)
}

// withWait lets other objects be reconciled while the engine waits for a hook.
func withWait(ctx context.Context) context.Context {
	return helm.WithWait(ctx, func() (func(), error) { return controller.ReleaseWorker(ctx) })
}
