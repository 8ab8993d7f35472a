// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"time"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Plan is the decision about a release.
type Plan struct {
	// Observed is the observed state that the plan is based on.
	Observed helm.Snapshot
	// Next brings the release to its desired state if nothing holds it. It has no action
	// if the desired state is unknown.
	Next helm.Decision
	// Decision is what the engine executes now.
	Decision helm.Decision
	// Withheld says that Decision does less than Next.
	Withheld bool
	// Suspended says that nothing is executed.
	Suspended bool
	// GivenUp says that Next is a further attempt at a change that was given up or rolled back.
	GivenUp bool
	// Contested says that Decision corrects only objects that another client changes again after
	// each correction. The status reports the contest, and not each correction.
	Contested bool
	// Changes are the changes of a revision that was tried and failed.
	Changes helm.Changes
}

// newPlan returns the plan that executes next. If the desired release is unknown, the
// plan keeps the deployed release.
func newPlan(observed helm.Snapshot, next helm.Decision, known bool) Plan {
	if !known {
		return Plan{Observed: observed, Decision: keep(observed), Withheld: true}
	}
	return Plan{Observed: observed, Decision: next, Next: next}
}

// force returns the plan with an upgrade in place of an action that only keeps the
// release, or that keeps a rollback. A plan that makes a new revision does not change.
// Neither does a plan that waits for another client, or whose desired state is unknown.
func (p Plan) force() Plan {
	switch p.Next.Action {
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair:
		p.Next = helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseRequested}
		p.Decision = p.Next
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback, helm.ActionWait, helm.ActionRefuse:
	}
	return p
}

// RollsOut reports whether the plan would make a new revision if nothing held it.
func (p Plan) RollsOut() bool { return rollsOut(p.Next.Action) }

// hold returns the plan without a new revision. The deployed release is still kept as it
// is.
func (p Plan) hold() Plan {
	if !p.RollsOut() {
		return p
	}
	p.Withheld = true
	if !p.Suspended {
		p.Decision = keep(p.Observed)
	}
	return p
}

// suspend returns the plan that executes nothing, not even repairs. Known drift does not
// count as withheld, because the release is the desired one.
func (p Plan) suspend() Plan {
	p.Suspended = true
	p.Decision = helm.Decision{Action: helm.ActionNone}
	switch p.Next.Action {
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback, helm.ActionReapply, helm.ActionWait, helm.ActionRefuse:
		p.Withheld = true
	case helm.ActionNone, helm.ActionRepair:
	}
	return p
}

// leaveDrift returns the plan without the correction of drift.
func (p Plan) leaveDrift() Plan {
	p.Decision = helm.Decision{Action: helm.ActionNone}
	if p.Next.Action == helm.ActionRepair {
		p.Next = p.Decision
	}
	return p
}

// tryAgain returns the plan that attempts the desired revision, which was given up or rolled back.
// The gates and the blockers of a change are evaluated later.
func (p Plan) tryAgain() Plan {
	if p.Next.Action != helm.ActionInstall && p.Next.Action != helm.ActionUpgrade {
		p = p.giveWay()
	}
	p.GivenUp = true
	return p
}

// giveWay returns the plan that attempts the desired revision in place of an older one. It replaces
// the record of a rollback that did not succeed.
func (p Plan) giveWay() Plan {
	return p.next(helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed, Replace: p.Next.Replace})
}

// isUnhealthy reports whether the newest revision is deployed and was not healthy in time. It may
// become healthy without a further attempt.
func (p Plan) isUnhealthy() bool { return p.Observed.Record != nil && p.Observed.Record.Unhealthy }

// next returns the plan that executes the decision.
func (p Plan) next(decision helm.Decision) Plan {
	p.Next, p.Decision = decision, decision
	return p
}

// isSettled reports whether the deployed release is the desired one.
func (p Plan) isSettled() bool {
	return p.Observed.Record != nil && !p.Withheld && !p.RollsOut() && !p.Next.RolledBack && p.Next.Action != helm.ActionWait
}

// holdIfBlocked holds the plan if blockers remain, and returns the blockers that count. A
// rollback does not wait for other objects, because it brings back an earlier revision.
func (p Plan) holdIfBlocked(blockers []Blocker) (Plan, []Blocker) {
	if p.Next.Action == helm.ActionRollback {
		blockers = slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return b.NotForRollback })
	}
	if len(blockers) > 0 {
		p = p.hold()
	}
	return p, blockers
}

// rollsOut reports whether the action makes a new revision.
func rollsOut(action helm.Action) bool {
	return action == helm.ActionInstall || action == helm.ActionUpgrade || action == helm.ActionRollback
}

// isRepair reports whether the action only keeps the deployed release.
func isRepair(action helm.Action) bool {
	return action == helm.ActionRepair || action == helm.ActionReapply
}

// keep decides as if the deployed release were the desired state. Only a release that the
// engine itself deployed can be kept. Any other release has another owner or is
// unfinished. Failed attempts do not end the deployed release.
func keep(observed helm.Snapshot) helm.Decision {
	if observed.Record == nil {
		return helm.Decision{Action: helm.ActionNone}
	}
	if observed.StillDeployed != nil {
		observed.Record, observed.BaselineKnown, observed.Unverified = observed.StillDeployed, true, false
	}
	// An object whose kind is no longer served is not repaired, because the desired
	// release may no longer contain it.
	observed.Drifts = slices.DeleteFunc(slices.Clone(observed.Drifts), func(drift helm.Drift) bool { return drift.Unserved })
	decision := helm.Decide(observed.Record.Inputs, observed, time.Time{}, 0)
	if rollsOut(decision.Action) || decision.Action == helm.ActionWait {
		return helm.Decision{Action: helm.ActionNone}
	}
	return decision
}
