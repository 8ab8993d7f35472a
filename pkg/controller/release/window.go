// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/window"
)

// windowReasons are the reasons of UpgradeHeld that are about the window.
var windowReasons = []string{releasev1alpha1.ReasonOutsideWindow, releasev1alpha1.ReasonInvalidSchedule}

// heldByWindow says how the status of an object shows that [gateWindow] holds it, for metrics.
func heldByWindow() kind.Gate {
	return kind.Gate{Name: "window", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue, Reasons: windowReasons}
}

// gateWindow is the gate of spec.upgradeWindow. Outside of the window, upgrades wait. Forced
// upgrades, first installs and corrections of drift do not wait.
func gateWindow(_ context.Context, in GateInput) Verdict {
	spec := in.Desired.Policy.UpgradeWindow
	if spec == nil {
		return Verdict{}
	}
	w, err := window.Parse(spec.Schedule, spec.TimeZone, spec.Duration.Duration)
	if err != nil {
		return holdUpgrade(releasev1alpha1.ReasonInvalidSchedule, fmt.Sprintf("upgradeWindow: %v", err), true)
	}
	if in.Plan.Next.Action != helm.ActionUpgrade || in.ForceAt != "" || completesAttempt(in) || correctsDrift(in) {
		return Verdict{}
	}
	open, opens := w.At(in.Now)
	switch {
	case open:
		return Verdict{}
	case opens.IsZero():
		return holdUpgrade(releasev1alpha1.ReasonOutsideWindow, "A change waits for the upgrade window, which does not open for years", false)
	}
	verdict := holdUpgrade(releasev1alpha1.ReasonOutsideWindow, fmt.Sprintf("A change waits for the upgrade window, which opens at %s (%s)",
		opens.Format(time.RFC3339), opens.Location()), false)
	verdict.RequeueAfter = opens.Sub(in.Now) // Without jitter: users know when the window opens.
	return verdict
}

// completesAttempt reports whether the plan completes an interrupted upgrade. The upgrade
// began while it was allowed, and left the release incomplete.
func completesAttempt(in GateInput) bool {
	record := in.Plan.Observed.Record
	return in.Plan.Next.Cause == helm.CauseInterrupted && record.Own && record.Inputs == in.Digest
}

// correctsDrift reports whether the plan only reverts changes of other clients to the
// release. If a change has been waiting, the plan would also roll out that change.
func correctsDrift(in GateInput) bool {
	s := in.Status
	return in.Plan.Next.Cause == helm.CauseReleaseChanged && s.DeployedRelease != nil &&
		s.DeployedRelease.ChartVersion == in.Desired.Release.Chart.Version() && deployedGeneration(*s) == in.Generation &&
		meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionUpgradeHeld) == nil && !in.Desired.ChangeHeld
}

// deployedGeneration is the generation of the last successful install or upgrade; 0 if the
// status does not have it. The observed generation may be newer: a generation that needs a user
// is observed, but not deployed.
func deployedGeneration(s releasev1alpha1.ReleaseStatus) int64 {
	deployed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDeployed)
	if deployed != nil && deployed.Status == metav1.ConditionTrue {
		return deployed.ObservedGeneration
	}
	for _, entry := range s.History {
		made := entry.Action == releasev1alpha1.HistoryInstall || entry.Action == releasev1alpha1.HistoryUpgrade
		if made && entry.Outcome == releasev1alpha1.HistorySucceeded {
			return entry.Generation
		}
	}
	return 0
}
