// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Observer is the part of the engine that looks and decides, without a request
// of its own.
type Observer interface {
	Observe(ctx context.Context, release cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error)
	Decide(release helm.Release, observed helm.Snapshot) (helm.Decision, error)
}

// Request is what is wanted of a release.
type Request struct {
	// Key is the release's namespace and name.
	Key cache.ObjectName
	// Wanted is the release as it should be; nil when that cannot be told now,
	// because some input is missing.
	Wanted *helm.Release
	// Baseline is what was kept of the last success.
	Baseline helm.Baseline
}

// Plan is what is to be done about a release.
type Plan struct {
	// Decision is what the engine is to execute now.
	Decision helm.Decision
	// Wanted is what it would execute if nothing held it; without an action when
	// that cannot be told.
	Wanted helm.Decision
	// Withheld says that more would be done if nothing held it.
	Withheld bool
	// Suspended says that nothing at all is to be done.
	Suspended bool
	// Observed is what the decision was made on.
	Observed helm.Snapshot
}

// Observe looks at the release and decides what is to be done about it. It
// sends no request. The error wraps helm.ErrNotSynced when a cache is not
// filled yet, and is terminal when the values cannot be a release's.
func Observe(ctx context.Context, engine Observer, request Request) (Plan, error) {
	observed, err := engine.Observe(ctx, request.Key, request.Baseline)
	if err != nil {
		return Plan{}, fmt.Errorf("look at release %s: %w", request.Key, err)
	}
	if request.Wanted == nil {
		return Plan{Observed: observed, Decision: keep(observed), Withheld: true}, nil
	}
	wanted, err := engine.Decide(*request.Wanted, observed)
	if err != nil {
		return Plan{}, fmt.Errorf("decide on release %s: %w", request.Key, err)
	}
	return Plan{Observed: observed, Decision: wanted, Wanted: wanted}, nil
}

// Force makes an upgrade of a plan that would only keep the release as it is. A
// plan that brings something new anyway stays as it is, and so does one that
// cannot tell what is wanted, that waits for somebody else, or that keeps what
// failed attempts were rolled back to.
func (p *Plan) Force() {
	if p.Wanted.RolledBack {
		return
	}
	switch p.Wanted.Action {
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair:
		p.Wanted = helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseRequested}
		p.Decision = p.Wanted
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback, helm.ActionWait, helm.ActionRefuse:
	}
}

// RollsOut reports whether the plan would bring anything new if nothing held it.
func (p *Plan) RollsOut() bool { return rollsOut(p.Wanted.Action) }

// Hold keeps anything new from being rolled out. What is deployed is still kept
// as it is.
func (p *Plan) Hold() {
	if p.RollsOut() {
		p.Withheld = true
		if !p.Suspended {
			p.Decision = keep(p.Observed)
		}
	}
}

// Suspend keeps everything from being done, also what would keep the deployed
// release as it is. Drift that is known by name does not count as withheld: the
// release is the one that is wanted.
func (p *Plan) Suspend() {
	p.Suspended = true
	p.Decision = helm.Decision{Action: helm.ActionNone}
	switch p.Wanted.Action {
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionRollback, helm.ActionReapply, helm.ActionWait, helm.ActionRefuse:
		p.Withheld = true
	case helm.ActionNone, helm.ActionRepair:
	}
}

// rollsOut reports whether the action makes a new revision.
func rollsOut(action helm.Action) bool {
	return action == helm.ActionInstall || action == helm.ActionUpgrade || action == helm.ActionRollback
}

// keep decides as if what is deployed were what is wanted. Only a release that
// the engine itself deployed can be kept: whatever else is found there is
// somebody else's, or unfinished.
func keep(observed helm.Snapshot) helm.Decision {
	if observed.Record == nil {
		return helm.Decision{Action: helm.ActionNone}
	}
	// An object that went with its kind is not repaired for the sake of a release
	// that may no longer be wanted like that.
	observed.Drifts = slices.DeleteFunc(slices.Clone(observed.Drifts), func(drift helm.Drift) bool { return drift.Unserved })
	decision := helm.Decide(observed.Record.Inputs, observed, time.Time{}, 0)
	if rollsOut(decision.Action) || decision.Action == helm.ActionWait {
		return helm.Decision{Action: helm.ActionNone}
	}
	return decision
}
