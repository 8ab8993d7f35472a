// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
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
