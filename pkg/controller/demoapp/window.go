// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/window"
	"github.com/example/demoapp-controller/pkg/helm"
)

// windowReasons are those of UpgradeHeld that are about the window.
var windowReasons = []string{releasev1alpha1.ReasonOutsideWindow, releasev1alpha1.ReasonInvalidSchedule}

// holdUntilWindow is the gate of spec.upgradeWindow: outside of it, an upgrade
// waits. One that a user forces does not, nor does a first install, or what
// corrects drift.
func (c *Controller) holdUntilWindow(_ context.Context, p *pass) {
	spec := p.app.Spec.UpgradeWindow
	if spec == nil {
		p.endHold()
		return
	}
	w, err := window.Parse(spec.Schedule, spec.TimeZone, spec.Duration.Duration)
	if err != nil {
		p.holdUpgrade(releasev1alpha1.ReasonInvalidSchedule, fmt.Sprintf("upgradeWindow: %v", err), true)
		return
	}
	if p.plan.Wanted.Action != helm.ActionUpgrade || p.forceAt != "" || p.completesAttempt() || p.correctsDrift(c.chart) {
		p.endHold()
		return
	}
	open, opens := w.At(p.now)
	switch {
	case open:
		p.endHold()
	case opens.IsZero():
		p.holdUpgrade(releasev1alpha1.ReasonOutsideWindow, "A change waits for the upgrade window, which does not open for years", false)
	default:
		// The timer is exact: whoever waits for the window knows when it opens.
		p.next = min(p.next, opens.Sub(p.now))
		p.holdUpgrade(releasev1alpha1.ReasonOutsideWindow, fmt.Sprintf("A change waits for the upgrade window, which opens at %s (%s)",
			opens.Format(time.RFC3339), opens.Location()), false)
	}
}

// holdUpgrade says that an upgrade waits, and why.
func (p *pass) holdUpgrade(reason, message string, stalled bool) {
	p.conditions().Set(releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, reason, message)
	p.blockers = append(p.blockers, blocker{reason: reason, message: message, stalled: stalled})
}

// endHold says that no upgrade waits for the window. What else it waits for is
// left.
func (p *pass) endHold() {
	held := meta.FindStatusCondition(p.app.Status.Conditions, releasev1alpha1.ConditionUpgradeHeld)
	if held != nil && slices.Contains(windowReasons, held.Reason) {
		p.conditions().Remove(releasev1alpha1.ConditionUpgradeHeld)
	}
}

// completesAttempt reports whether the plan is to finish an upgrade that was cut
// off: it began when it was allowed to, and has left the release half done.
func (p *pass) completesAttempt() bool {
	record := p.plan.Observed.Record
	return p.plan.Wanted.Cause == helm.CauseInterrupted && record.Own && record.Inputs == p.inputs
}

// correctsDrift reports whether the plan only takes back what somebody else did
// to the release. Where a change has been waiting, it would come along.
func (p *pass) correctsDrift(chart *helm.Chart) bool {
	s := p.app.Status
	return p.plan.Wanted.Cause == helm.CauseReleaseChanged && s.DeployedRelease != nil &&
		s.DeployedRelease.ChartVersion == chart.Version() && deployedGeneration(s) == p.app.Generation &&
		meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionUpgradeHeld) == nil &&
		!meta.IsStatusConditionFalse(s.Conditions, v1alpha1.ConditionValidated)
}
