// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Engine is the part of the Helm engine that a lifecycle uses.
type Engine interface {
	Observer
	Execute(ctx context.Context, desired helm.Release, decision helm.Decision, baseline helm.Baseline) (*helm.Deployed, error)
	Explain(ctx context.Context, release helm.Release, baseline helm.Baseline, drifts []helm.Drift) ([]helm.Explanation, error)
	Uninstall(ctx context.Context, release helm.Release, baseline helm.Baseline) ([]helm.Leftover, error)
	Remaining(ctx context.Context, release helm.Release, baseline helm.Baseline) ([]helm.Leftover, error)
	Running(ctx context.Context, release helm.Release) (*helm.Deployed, []helm.ObjectHealth, error)
	LetGo(ctx context.Context, release helm.Release, baseline helm.Baseline) error
	Orphaned(ctx context.Context, release helm.Release, baseline helm.Baseline) (bool, error)
	MarkFailed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	MarkDeployed(ctx context.Context, release helm.Release, baseline helm.Baseline, revision int, description string) error
	Capabilities(release cache.ObjectName) string
	InTheWay(ctx context.Context, release helm.Release, object helm.ObjectReference) (string, error)
	FailingPod(ctx context.Context, workload helm.ObjectHealth) (string, error)
	Forget(release cache.ObjectName)
	HasSynced() bool
	Subscribe(func(release cache.ObjectName, change helm.Change))
}

// Rollouts decides whose turn it is in a rollout.
type Rollouts interface {
	// Gate holds an upgrade of an object that has not changed itself until its turn comes.
	Gate(ctx context.Context, input GateInput) Verdict
	// Settle records how the object stands to the change after a pass. lost says that the status could
	// not be written, so the next pass does not have it.
	Settle(f Facts, plan Plan, status releasev1alpha1.ReleaseStatus, lost bool)
	// Forget removes an object that is deleted or being deleted.
	Forget(key cache.ObjectName)
}

// Lifecycle runs the releases of one kind. It is safe for concurrent use.
type Lifecycle struct {
	engine   Engine
	gates    []Gate
	rollouts Rollouts
	recorder events.EventRecorder
	drift    controller.DriftCount

	// What follows may be lost with the process.
	refusedChanges, refusedRepairs controller.Memory[refusal]

	ignored       controller.Memory[string]
	explanations  controller.Memory[explained]
	inputVersions controller.Memory[inputVersion]
	sources       controller.Memory[string]
	podLooks      controller.Memory[podLooks]
	// drifted are the objects whose drift was counted and is not corrected.
	drifted controller.Memory[map[helm.Identity]bool]
	// corrections are the corrections of the last minutes.
	corrections controller.Corrections[driftedObject]
	// releases has the release of each object that is not refused its release. Several
	// kinds may want one release, and the engine's memory belongs to its owner.
	releases controller.Memory[cache.ObjectName]
}

// newLifecycle returns a lifecycle. Suspend, the upgrade window and then its gates are evaluated before
// the gates of the kind, and the rollouts last: an object that another gate holds takes no turn. Until
// rollouts is set, a change reaches all objects at once. drift counts the drifted objects of all
// releases.
func newLifecycle(engine Engine, recorder events.EventRecorder, drift controller.DriftCount, gates ...Gate) *Lifecycle {
	return &Lifecycle{
		engine: engine, recorder: recorder, drift: drift, rollouts: noRollouts{}, gates: append([]Gate{gateSuspend, gateWindow}, gates...),
	}
}

// Forget removes the state of a deleted object.
func (l *Lifecycle) Forget(key cache.ObjectName) {
	l.refusedChanges.Forget(key)
	l.refusedRepairs.Forget(key)
	l.ignored.Forget(key)
	l.explanations.Forget(key)
	l.inputVersions.Forget(key)
	l.sources.Forget(key)
	l.podLooks.Forget(key)
	l.drifted.Forget(key)
	l.corrections.Forget(func(corrected driftedObject) bool { return corrected.owner == key })
	l.rollouts.Forget(key)
	if release, ok := l.releases.Get(key); ok {
		l.engine.Forget(release)
		l.releases.Forget(key)
	}
}

// subject is the object of a pass, independent of its kind.
type subject struct {
	pass

	object interface {
		metav1.Object
		runtime.Object
	}
	// status is the status of the object, which the steps change.
	status *releasev1alpha1.ReleaseStatus
	// written returns the last written status.
	written func() *releasev1alpha1.ReleaseStatus
}

// pass is the part of [kind.Pass] that does not depend on the kind.
type pass interface {
	Conditions() status.Editor
	RequeueAfter(d time.Duration)
	Commit(ctx context.Context) error
	Confirm(ctx context.Context) error
	AfterCommit(f func(end kind.StatusEnd))
}

// reconcile makes one pass over a release. err is the error of Binding.Desired.
func (l *Lifecycle) reconcile(ctx context.Context, s *subject, f Facts, err error) error {
	ctx = f.Desired.Redactor.Logging(withWait(ctx))
	var plan Plan
	// Settle runs last, because the statuses then show whose turn is next.
	s.AfterCommit(func(end kind.StatusEnd) {
		lost := end == kind.StatusLost
		if lost {
			l.refusedChanges.Forget(f.Key) // The next pass repeats the attempt, and reports its failure.
		}
		l.rollouts.Settle(f, plan, *s.status, lost)
	})
	chart := f.Desired.Release.Chart
	bound := fmt.Sprintf("Bound to chart %s %s", chart.Name(), chart.Version())
	if note := chart.SchemaNote(); note != "" {
		bound += ". " + note
	}
	s.Conditions().Set(releasev1alpha1.ConditionInitialized, metav1.ConditionTrue, releasev1alpha1.ReasonChartLoaded, bound)
	observed := false
	if err == nil {
		f, err = l.identify(ctx, f, *s.status)
	}
	if err == nil {
		plan, observed, err = l.steps(ctx, s, f)
	} else {
		err = l.reportFailure(ctx, s, f, plan, err)
	}
	if controller.IsPending(err) {
		return err
	}
	l.reportRunning(ctx, s, f)
	f.Desired.summarize(outcomeOf(f, plan, observed))
	if f.Desired.Known && plan.isSettled() {
		l.sources.Set(f.Key, f.Desired.Sources)
		if s.status.Sources != "" {
			s.status.Sources = sourcesDigest(f.Desired.Sources)
		}
	}
	if f.Requested && !isNotSynced(err) {
		// The request is handled even if the pass failed. A pass that could not begin is
		// repeated.
		s.status.LastHandledRequestedAt = s.object.GetAnnotations()[releasev1alpha1.AnnotationRequestedAt]
	}
	return f.Desired.Redactor.Error(err)
}

// identify returns the facts with the digest and the version of the inputs.
func (l *Lifecycle) identify(ctx context.Context, f Facts, s releasev1alpha1.ReleaseStatus) (Facts, error) {
	if !f.Desired.Known {
		return f, nil
	}
	digest, err := f.Desired.Release.InputDigest()
	if err != nil {
		return f, err
	}
	f.Digest = digest
	if storedFailures(s).Capabilities != "" {
		f.Capabilities = l.engine.Capabilities(f.release())
	}
	f.InputVersion, f.FailureUnknown = l.inputVersion(ctx, f, s)
	f.SourcesChanged = l.sourcesChanged(f, s)
	return f, nil
}

// steps gather, decide, act and report, in this order. They return the final plan, and
// report whether the pass completed and nothing held it.
func (l *Lifecycle) steps(ctx context.Context, s *subject, f Facts) (_ Plan, observed bool, _ error) {
	found, err := l.assess(ctx, s, f, f.Desired.Blockers)
	if err != nil {
		return found.plan, false, l.reportFailure(ctx, s, f, found.plan, err)
	}
	f.Desired.summarize(outcomeOf(f, found.plan, false))
	found = l.passGates(ctx, s, f, found)
	if rollsOut(found.plan.Decision.Action) {
		found = l.holdRefused(ctx, s, f, found)
	}
	if found.plan, err = l.applyDriftPolicy(ctx, s, f, found.plan); err != nil {
		return found.plan, false, l.reportFailure(ctx, s, f, found.plan, err)
	}
	l.countDrift(f, found.plan)
	found = suspend(s, f, found)
	if !rollsOut(found.plan.Decision.Action) {
		found = l.holdRefused(ctx, s, f, found)
	}
	if err := l.announce(ctx, s, f, found); err != nil {
		return found.plan, false, err
	}
	found, acted, err := l.act(ctx, s, f, found)
	if err != nil {
		if failed := l.reportFailure(ctx, s, f, found.plan, err); failed != nil {
			return found.plan, false, errors.Join(failed, l.keepDeployed(ctx, s, f, found.plan, err))
		}
		return found.plan, false, nil
	}
	if acted {
		// The plan was made before the change. Only the state after the change counts
		// now.
		found, err = l.assess(ctx, s, f, found.blockers)
		if found.willRetry() {
			s.RequeueAfter(retrySoon)
		}
	}
	if err != nil {
		return found.plan, false, l.reportFailure(ctx, s, f, found.plan, err)
	}
	found.contested = l.reportDrift(s, f, found.plan)
	return found.plan, report(s, f, found), nil
}

// assessment is the observed state of a release and the decision about it.
type assessment struct {
	plan     Plan
	blockers []Blocker
	health   health
	// contested describes the objects that other clients change again after each correction.
	contested string
}

// willRetry reports whether the deployed revision was not healthy in time and another
// revision follows.
func (a assessment) willRetry() bool {
	return a.health.late != "" && a.plan.RollsOut() && !a.plan.Withheld
}

// assess observes the release and decides what to do, given the blockers of a change.
func (l *Lifecycle) assess(ctx context.Context, s *subject, f Facts, blockers []Blocker) (assessment, error) {
	plan, err := l.observe(ctx, s, f)
	if err != nil {
		return assessment{}, err
	}
	plan = l.explainPods(ctx, s, f, plan)
	found := assessment{}
	found.plan, found.blockers = plan.holdIfBlocked(blockers)
	found.health = judgeHealth(f, found.plan, *s.status)
	if found.health.timeLeft > 0 {
		s.RequeueAfter(found.health.timeLeft)
	}
	if found.health.late != "" {
		reportLate(s, f, found.health)
		if f.Desired.Policy.Remediation != nil {
			found.plan = found.plan.next(helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed})
		}
	}
	chosen := remediate(f, found.plan, *s.status)
	if chosen.reason == releasev1alpha1.ReasonRetriesExhausted {
		answerForce(s.status, f, helm.ActionUpgrade) // All attempts that the request started have failed.
	}
	if chosen.wait > 0 {
		s.RequeueAfter(chosen.wait)
	}
	found.plan = chosen.plan
	found.blockers = reportRemedy(s, f, chosen, found.blockers)
	return found, nil
}

// passGates evaluates all gates, although one is enough to hold the change, so that the
// status shows every blocker. UpgradeHeld is of the first gate that sets it, after a takeover that
// waits for consent: a user consents to what the status shows.
func (l *Lifecycle) passGates(ctx context.Context, s *subject, f Facts, found assessment) assessment {
	gates := append(append([]Gate{l.gateContested}, l.gates...), f.Desired.Gates...)
	takeover, held := takeoverShown(f, found.plan, *s.status), (*metav1.Condition)(nil)
	for _, gate := range append(gates, l.rollouts.Gate) {
		verdict := gate(ctx, GateInput{Facts: f, Plan: found.plan, Status: s.status, Blocked: len(found.blockers) > 0})
		s.Conditions().Remove(verdict.Remove...)
		switch c := verdict.Condition; {
		case c == nil:
		case c.Type == releasev1alpha1.ConditionUpgradeHeld:
			held = cmp.Or(held, c)
		default:
			s.Conditions().Set(c.Type, c.Status, c.Reason, c.Message)
		}
		if verdict.RequeueAfter > 0 {
			s.RequeueAfter(verdict.RequeueAfter)
		}
		if verdict.First {
			found.blockers = append(append([]Blocker{}, verdict.Blockers...), found.blockers...)
		} else {
			found.blockers = append(append([]Blocker{}, found.blockers...), verdict.Blockers...)
		}
	}
	if takeover != nil && len(found.blockers) > 0 {
		blocker := Blocker{Reason: takeover.Reason, Message: takeover.Message}
		at := 0
		if f.Desired.Policy.Suspend {
			at = 1 // The blocker of the suspension comes first.
		}
		found.blockers = slices.Insert(slices.Clone(found.blockers), at, blocker)
	}
	s.showHeld(cmp.Or(takeover, held))
	found.plan, found.blockers = found.plan.holdIfBlocked(found.blockers)
	return found
}

// showHeld sets or removes UpgradeHeld.
func (s *subject) showHeld(held *metav1.Condition) {
	if held == nil {
		s.Conditions().Remove(releasev1alpha1.ConditionUpgradeHeld)
		return
	}
	s.Conditions().Set(held.Type, held.Status, held.Reason, held.Message)
}

// redactFor has the redactor keep the names that everybody sees: of the object, its release, its
// chart, and the objects in the release.
func (d *Desired) redactFor(key cache.ObjectName, written releasev1alpha1.ReleaseStatus) {
	redactor, desired := d.Redactor, d.Release
	if redactor == nil {
		redactor = redact.New(nil)
	}
	d.Redactor = redactor.Keeping(func() []string {
		names := []string{key.Namespace, key.Name, desired.Namespace, desired.Name}
		if desired.Chart != nil {
			names = append(names, desired.Chart.Name())
		}
		if desired.Owner != nil {
			names = append(names, desired.Owner.Kind)
		}
		for _, entry := range written.Inventory {
			names = append(names, entry.Kind, entry.Name)
		}
		return names
	})
}

func (d Desired) summarize(outcome Outcome) {
	if d.Summarize != nil {
		d.Summarize(outcome)
	}
}

// outcomeOf returns the outcome for the kind's own status.
func outcomeOf(f Facts, plan Plan, observed bool) Outcome {
	return Outcome{
		Settled: f.Desired.Known && plan.isSettled(), RolledBack: plan.Next.RolledBack, Observed: observed,
	}
}

// isNotSynced reports whether a pass ended because a cache is not synced yet, or because the process
// stops. Nothing was attempted, and another pass follows.
func isNotSynced(err error) bool {
	return errors.Is(err, helm.ErrNotSynced) || errors.Is(err, controller.ErrNotSynced) || errors.Is(err, helm.ErrStopped)
}

// withWait frees the worker for other objects while the engine waits for a hook, and ends a rendering
// when the process stops.
func withWait(ctx context.Context) context.Context {
	ctx = helm.WithStop(ctx, controller.Stop(ctx))
	return helm.WithWait(ctx, func(string) (func(), error) { return controller.ReleaseWorker(ctx) })
}

// noRollouts lets a change reach all objects at once.
type noRollouts struct{}

// Gate implements [Rollouts].
func (noRollouts) Gate(context.Context, GateInput) Verdict { return Verdict{} }

// Settle implements [Rollouts].
func (noRollouts) Settle(Facts, Plan, releasev1alpha1.ReleaseStatus, bool) {}

// Forget implements [Rollouts].
func (noRollouts) Forget(cache.ObjectName) {}
