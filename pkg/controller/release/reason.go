// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Circumstances are the facts that determine the reason for a change together with the decision.
type Circumstances struct {
	// Why is the reason for which the key was queued.
	Why controller.Reason
	// Deployed says that the release has been deployed before.
	Deployed bool
	// SpecChanged says that the spec differs from the one last reconciled.
	SpecChanged bool
	// Unrecorded says that the status did not record the newest revision, although the
	// caller made it.
	Unrecorded bool
	// ChartChanged says that the chart's version differs from the one last deployed.
	ChartChanged bool
	// OperatorChanged says that the release gets other inputs from the operator, although the
	// object has not changed itself.
	OperatorChanged bool
	// CapabilitiesChanged says that only the capabilities of the cluster differ from
	// those at the newest revision.
	CapabilitiesChanged bool
	// DependencyBecameReady says that the change waited for a dependency until now.
	DependencyBecameReady bool
	// Failed says that the last attempt at this spec failed.
	Failed bool
	// Foreign says that the release belonged to another owner at the last attempt.
	Foreign bool
}

// ReasonFor returns the reason for which the decision changes the release's objects.
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
	case helm.CauseReleaseChanged:
		if !c.Deployed {
			return releasev1alpha1.UpgradeReasonTakenOver
		}
		return foundBy(c.Why)
	case helm.CauseDrift:
		return foundBy(c.Why)
	case helm.CauseBaselineUnknown, helm.CauseUnverified:
		if !c.SpecChanged && !c.Unrecorded {
			return foundBy(c.Why)
		}
	case helm.CauseNone, helm.CauseInputsChanged, helm.CauseOtherOwner:
	}
	switch {
	case c.Foreign && !c.Deployed && decision.Cause != helm.CauseNotInstalled:
		return releasev1alpha1.UpgradeReasonTakenOver
	case c.DependencyBecameReady:
		return releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady
	case c.CapabilitiesChanged && !c.SpecChanged:
		return releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged
	case c.Failed:
		return releasev1alpha1.UpgradeReasonRetryAfterFailure
	case c.ChartChanged && !c.SpecChanged:
		return releasev1alpha1.UpgradeReasonChartChanged
	case c.OperatorChanged && !c.SpecChanged:
		return releasev1alpha1.UpgradeReasonOperatorChanged
	default:
		return releasev1alpha1.UpgradeReasonSpecGenerationChanged
	}
}

// foundBy distinguishes a change that an event reported from a change that only the periodic resync
// found. Retries do not matter.
func foundBy(why controller.Reason) releasev1alpha1.UpgradeReason {
	if why&^controller.Retry == controller.PeriodicResync {
		return releasev1alpha1.UpgradeReasonPeriodicResync
	}
	return releasev1alpha1.UpgradeReasonDriftDetected
}

// reasonFor returns the reason for which the decision changes the release. The status
// must be the one before the change.
func reasonFor(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus, decision helm.Decision) releasev1alpha1.UpgradeReason {
	failed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionFailed)
	return ReasonFor(decision, Circumstances{
		Why:                   f.Reason,
		Deployed:              s.DeployedRelease != nil,
		SpecChanged:           s.ObservedGeneration != f.Generation,
		Unrecorded:            isUnrecorded(plan, s),
		ChartChanged:          chartChanged(f, plan, s),
		OperatorChanged:       decision.Cause == helm.CauseInputsChanged && changesFleet(f, plan, s),
		CapabilitiesChanged:   capabilitiesChanged(f, plan),
		DependencyBecameReady: f.Desired.DependencyBecameReady,
		Failed:                failed != nil && failed.ObservedGeneration == f.Generation,
		Foreign:               failed != nil && failed.Reason == apimeta.ReasonOwnershipConflict,
	})
}

// completedBy returns the decision that a reapply completes. If the process ended before
// the status recorded a revision, applying its objects again completes the action that
// made it.
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

// chartChanged reports whether the newest revision was made from another chart than the
// desired one, or than the one in the status.
func chartChanged(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	record, known, chart := plan.Observed.Record, s.DeployedRelease, f.Desired.Release.Chart
	if record == nil || !record.Own {
		return false
	}
	return !record.MadeFrom(chart) || isUnrecorded(plan, s) && known != nil && known.ChartVersion != chart.Version()
}

// capabilitiesChanged reports whether the newest revision differs from the desired one
// only in the capabilities of the cluster.
func capabilitiesChanged(f Facts, plan Plan) bool {
	record := plan.Observed.Record
	if !f.Desired.Known || record == nil || !record.MadeFrom(f.Desired.Release.Chart) || record.Inputs == f.Digest {
		return false
	}
	return f.isVariant(record.Inputs)
}

// isUnrecorded reports whether the newest revision is the operator's own and newer than
// the one in the status. Either the process ended before the status was written, or the
// revision is a failed attempt.
func isUnrecorded(plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	record, known := plan.Observed.Record, s.DeployedRelease
	return record != nil && record.Own && (known == nil || int64(record.Revision) > known.Revision)
}
