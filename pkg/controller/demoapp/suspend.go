// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// holdWhileSuspended is the gate of spec.suspend. An app for which nothing would
// be done anyway stays as ready as it is.
func (c *Controller) holdWhileSuspended(_ context.Context, p *pass) {
	if !p.app.Spec.Suspend {
		p.conditions().Remove(releasev1alpha1.ConditionSuspended)
		return
	}
	p.conditions().Set(releasev1alpha1.ConditionSuspended, metav1.ConditionTrue, releasev1alpha1.ReasonSuspendedBySpec,
		"Nothing is installed, upgraded or repaired while spec.suspend is true")
	if p.plan.RollsOut() || p.plan.Withheld {
		p.blockSuspended()
	}
}

// suspend stops what gates let through, the correction of drift above all, and
// reports the drift that the policy is left with.
func (p *pass) suspend() {
	if !p.app.Spec.Suspend {
		return
	}
	held := p.plan.Withheld
	if p.plan.Suspend(); p.plan.Withheld && !held {
		p.blockSuspended()
	}
	reason, message := suspendedDrift(p)
	switch {
	case reason == "":
		p.conditions().Remove(releasev1alpha1.ConditionDrifted)
	case reason == releasev1alpha1.ReasonReleaseChanged || driftMode(p.app.Spec) != releasev1alpha1.DriftWarn:
		p.conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
	}
}

// blockSuspended comes first: whatever else is in the way matters only after it.
func (p *pass) blockSuspended() {
	p.blockers = slices.Insert(p.blockers, 0, blocker{
		reason: releasev1alpha1.ReasonSuspendedBySpec, message: "A change waits until spec.suspend is false",
	})
}

// suspendedDrift says what somebody else changed, also where an upgrade that
// waits would overwrite it.
func suspendedDrift(p *pass) (reason, message string) {
	if drifts := p.plan.Observed.Drifts; len(drifts) > 0 {
		return driftReason(drifts), release.Names(drifts)
	}
	return driftOf(p, p.plan.Wanted)
}

// missingObjects says which objects a suspended app lacks and nobody will bring
// back. Those that are missing have no health of their own to report.
func missingObjects(p *pass) string {
	if !p.plan.Suspended {
		return ""
	}
	var missing []string
	for _, drift := range p.plan.Observed.Drifts {
		if drift.Kind == helm.DriftMissing {
			missing = append(missing, drift.Object.Kind+" "+drift.Object.Name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "Missing while spec.suspend is true: " + strings.Join(missing, ", ")
}
