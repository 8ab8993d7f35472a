// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"k8s.io/apimachinery/pkg/api/meta"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Circumstances are what, beside the decision itself, tells why a release
// changes.
type Circumstances struct {
	// Why the key was queued.
	Why controller.Reason
	// Deployed says that the release has been deployed before.
	Deployed bool
	// SpecChanged says that the spec is not the one last reconciled.
	SpecChanged bool
	// Unrecorded says that the newest revision is one that the caller made and did
	// not come to remember.
	Unrecorded bool
	// ChartChanged says that the chart's version is not the one last deployed.
	ChartChanged bool
	// CapabilitiesChanged says that nothing but what the cluster supports is other
	// than it was at the newest revision.
	CapabilitiesChanged bool
	// DependencyBecameReady says that the change had to wait for something else
	// until now.
	DependencyBecameReady bool
	// Failed says that the last attempt at this spec failed.
	Failed bool
}

// ReasonFor tells why the decision changes the release's objects.
func ReasonFor(decision helm.Decision, c Circumstances) releasev1alpha1.UpgradeReason {
	if decision.Action == helm.ActionRollback {
		return releasev1alpha1.UpgradeReasonRemediation
	}
	switch decision.Cause {
	case helm.CauseFailed, helm.CauseInterrupted:
		return releasev1alpha1.UpgradeReasonRetryAfterFailure
	case helm.CauseRequested:
		return releasev1alpha1.UpgradeReasonUserRequested
	case helm.CauseNotInstalled:
		if c.Deployed && !c.SpecChanged {
			return foundBy(c.Why)
		}
	case helm.CauseDrift, helm.CauseReleaseChanged:
		return foundBy(c.Why)
	case helm.CauseBaselineUnknown, helm.CauseUnverified:
		if !c.SpecChanged && !c.Unrecorded {
			return foundBy(c.Why)
		}
	case helm.CauseNone, helm.CauseInputsChanged, helm.CauseOtherOwner:
	}
	switch {
	case c.DependencyBecameReady:
		return releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady
	case c.CapabilitiesChanged && !c.SpecChanged:
		return releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged
	case c.Failed:
		return releasev1alpha1.UpgradeReasonRetryAfterFailure
	case c.ChartChanged && !c.SpecChanged:
		return releasev1alpha1.UpgradeReasonChartChanged
	default:
		return releasev1alpha1.UpgradeReasonSpecGenerationChanged
	}
}

// foundBy tells a change that an event told of from one that only the periodic
// look found, at the first attempt or a later one.
func foundBy(why controller.Reason) releasev1alpha1.UpgradeReason {
	if why&^controller.Retry == controller.PeriodicResync {
		return releasev1alpha1.UpgradeReasonPeriodicResync
	}
	return releasev1alpha1.UpgradeReasonDriftDetected
}

// reasonFor is why the decision changes the release, as long as the status is as it was
// before.
func reasonFor(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus, decision helm.Decision) releasev1alpha1.UpgradeReason {
	failed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionFailed)
	return ReasonFor(decision, Circumstances{
		Why:                   f.Reason,
		Deployed:              s.DeployedRelease != nil,
		SpecChanged:           s.ObservedGeneration != f.Generation,
		Unrecorded:            isUnrecorded(plan, s),
		ChartChanged:          chartChanged(f, plan, s),
		CapabilitiesChanged:   capabilitiesChanged(f, plan),
		DependencyBecameReady: f.Desired.DependencyBecameReady,
		Failed:                failed != nil && failed.ObservedGeneration == f.Generation,
	})
}

// completedBy is what a decision completes. Where the process ended before the status
// knew of a revision, applying its objects again completes what made it.
func completedBy(plan Plan, s releasev1alpha1.ReleaseStatus, decision helm.Decision) helm.Decision {
	if decision.Action != helm.ActionReapply || !isUnrecorded(plan, s) {
		return decision
	}
	switch record := plan.Observed.Record; {
	case record.RolledBackTo != 0:
		decision.Action, decision.To = helm.ActionRollback, record.RolledBackTo
	case record.Revision == 1:
		decision.Action = helm.ActionInstall
	default:
		decision.Action = helm.ActionUpgrade
	}
	return decision
}

// chartChanged reports whether the newest revision was made from another chart
// than the desired one, or than the one that the status knows of.
func chartChanged(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	record, known, chart := plan.Observed.Record, s.DeployedRelease, f.Desired.Release.Chart
	if record == nil || !record.Own {
		return false
	}
	return !record.MadeFrom(chart) || isUnrecorded(plan, s) && known != nil && known.ChartVersion != chart.Version()
}

// capabilitiesChanged reports whether the newest revision is what would be desired now if
// the cluster supported something else.
func capabilitiesChanged(f Facts, plan Plan) bool {
	record := plan.Observed.Record
	if !f.Desired.Known || record == nil || !record.MadeFrom(f.Desired.Release.Chart) || record.Inputs == f.Digest {
		return false
	}
	return f.isVariant(record.Inputs)
}

// isUnrecorded reports whether an own revision is the newest that the status does not
// know of yet: the process ended in between, or the revision is an attempt that failed.
func isUnrecorded(plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	record, known := plan.Observed.Record, s.DeployedRelease
	return record != nil && record.Own && (known == nil || int64(record.Revision) > known.Revision)
}
