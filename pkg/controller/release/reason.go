// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// UpgradeReason is why the objects of a release are changed, in one word.
type UpgradeReason string

// The upgrade reasons.
const (
	// SpecGenerationChanged: a first install, or a change of the spec or of what
	// it refers to.
	SpecGenerationChanged UpgradeReason = "SpecGenerationChanged"
	// DriftDetected: somebody else changed an object, or the release itself.
	DriftDetected UpgradeReason = "DriftDetected"
	// PeriodicResync: a difference that no event had told of.
	PeriodicResync UpgradeReason = "PeriodicResync"
	// CrossCRDependencyBecameReady: what the change had waited for came to be.
	CrossCRDependencyBecameReady UpgradeReason = "CrossCRDependencyBecameReady"
	// RetryAfterFailure: the previous attempt failed, or was cut off.
	RetryAfterFailure UpgradeReason = "RetryAfterFailure"
	// ChartChanged: the operator brought another chart.
	ChartChanged UpgradeReason = "ChartChanged"
	// ClusterCapabilitiesChanged: the cluster supports something that the spec asks
	// for now, or no longer.
	ClusterCapabilitiesChanged UpgradeReason = "ClusterCapabilitiesChanged"
	// Remediation: attempts failed, and the last good revision was brought back.
	Remediation UpgradeReason = "Remediation"
	// UserRequested: a user asked for an upgrade although nothing had changed.
	UserRequested UpgradeReason = "UserRequested"
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
func ReasonFor(decision helm.Decision, c Circumstances) UpgradeReason {
	if decision.Action == helm.ActionRollback {
		return Remediation
	}
	switch decision.Cause {
	case helm.CauseFailed, helm.CauseInterrupted:
		return RetryAfterFailure
	case helm.CauseRequested:
		return UserRequested
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
		return CrossCRDependencyBecameReady
	case c.CapabilitiesChanged && !c.SpecChanged:
		return ClusterCapabilitiesChanged
	case c.Failed:
		return RetryAfterFailure
	case c.ChartChanged && !c.SpecChanged:
		return ChartChanged
	default:
		return SpecGenerationChanged
	}
}

// foundBy tells a change that an event told of from one that only the periodic
// look found, at the first attempt or a later one.
func foundBy(why controller.Reason) UpgradeReason {
	if why&^controller.Retry == controller.PeriodicResync {
		return PeriodicResync
	}
	return DriftDetected
}
