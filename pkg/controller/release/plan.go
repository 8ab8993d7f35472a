// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"time"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Plan is what is to be done about a release.
type Plan struct {
	// Observed is what the plan was made on.
	Observed helm.Snapshot
	// Next is what brings the release to its desired state, if nothing holds it; without an
	// action when that cannot be told.
	Next helm.Decision
	// Decision is what the engine is to execute now.
	Decision helm.Decision
	// Withheld says that Next would do more than Decision.
	Withheld bool
	// Suspended says that nothing at all is to be done.
	Suspended bool
}

// newPlan returns the plan that does next, or keeps what is deployed where the desired
// release is not known.
func newPlan(observed helm.Snapshot, next helm.Decision, known bool) Plan {
	if !known {
		return Plan{Observed: observed, Decision: keep(observed), Withheld: true}
	}
	return Plan{Observed: observed, Decision: next, Next: next}
}

// force returns the plan with an upgrade in the place of what would only keep the release
// as it is. A plan that brings something new anyway stays as it is, and so does one that
// does not know the desired state, that waits for another client, or that keeps what
// failed attempts were rolled back to.
func (p Plan) force() Plan {
	if p.Next.RolledBack {
		return p
	}
	switch p.Next.Action {
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair:
		p.Next = helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseRequested}
		p.Decision = p.Next
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback, helm.ActionWait, helm.ActionRefuse:
	}
	return p
}

// RollsOut reports whether the plan would bring anything new if nothing held it.
func (p Plan) RollsOut() bool { return rollsOut(p.Next.Action) }

// hold returns the plan without anything new. What is deployed is still kept as it is.
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

// suspend returns the plan that does nothing, not even what would keep the deployed
// release as it is. Drift that is known by name does not count as withheld, because the
// release is the desired one.
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

// leaveDrift returns the plan that does nothing about drift.
func (p Plan) leaveDrift() Plan {
	p.Decision = helm.Decision{Action: helm.ActionNone}
	if p.Next.Action == helm.ActionRepair {
		p.Next = p.Decision
	}
	return p
}

// next returns the plan that does decision.
func (p Plan) next(decision helm.Decision) Plan {
	p.Next, p.Decision = decision, decision
	return p
}

// isSettled reports whether the deployed release is the desired one.
func (p Plan) isSettled() bool {
	return p.Observed.Record != nil && !p.Withheld && !p.RollsOut() && !p.Next.RolledBack && p.Next.Action != helm.ActionWait
}

// holdIfBlocked holds the plan if blockers are left, and returns those that count: a
// rollback brings nothing new and does not wait for other objects.
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

// isRepair reports whether the action keeps what is deployed as it is.
func isRepair(action helm.Action) bool {
	return action == helm.ActionRepair || action == helm.ActionReapply
}

// keep decides as if what is deployed were the desired state. Only a release that the
// engine itself deployed can be kept: anything else there belongs to others, or is
// unfinished.
func keep(observed helm.Snapshot) helm.Decision {
	if observed.Record == nil {
		return helm.Decision{Action: helm.ActionNone}
	}
	// An object that went with its kind is not repaired for a release that may no longer
	// be desired like that.
	observed.Drifts = slices.DeleteFunc(slices.Clone(observed.Drifts), func(drift helm.Drift) bool { return drift.Unserved })
	decision := helm.Decide(observed.Record.Inputs, observed, time.Time{}, 0)
	if rollsOut(decision.Action) || decision.Action == helm.ActionWait {
		return helm.Decision{Action: helm.ActionNone}
	}
	return decision
}
