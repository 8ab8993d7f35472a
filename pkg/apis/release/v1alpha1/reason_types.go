// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// UpgradeReason is why the operator last changed the objects of a release.
//
// +kubebuilder:validation:Enum=SpecGenerationChanged;DriftDetected;PeriodicResync;CrossCRDependencyBecameReady;RetryAfterFailure;ChartChanged;ClusterCapabilitiesChanged;UserRequested;Remediation
type UpgradeReason string

// The reasons for a change of the objects of a release.
const (
	// UpgradeReasonSpecGenerationChanged is the first install, or a change of
	// the spec or of what the spec refers to.
	UpgradeReasonSpecGenerationChanged UpgradeReason = "SpecGenerationChanged"
	// UpgradeReasonDriftDetected is a repair: an event told that somebody else
	// changed or deleted an object of the release, or the release itself.
	UpgradeReasonDriftDetected UpgradeReason = "DriftDetected"
	// UpgradeReasonPeriodicResync is a repair of a difference that only the
	// periodic resync found.
	UpgradeReasonPeriodicResync UpgradeReason = "PeriodicResync"
	// UpgradeReasonCrossCRDependencyBecameReady is a change that had waited
	// until the DemoApp named in waitFor was deployed.
	UpgradeReasonCrossCRDependencyBecameReady UpgradeReason = "CrossCRDependencyBecameReady"
	// UpgradeReasonRetryAfterFailure is a change whose previous attempt failed.
	UpgradeReasonRetryAfterFailure UpgradeReason = "RetryAfterFailure"
	// UpgradeReasonChartChanged is a change because the operator brought a newer
	// chart.
	UpgradeReasonChartChanged UpgradeReason = "ChartChanged"
	// UpgradeReasonClusterCapabilitiesChanged is a change because the cluster
	// supports something that spec.ingress asks for now, or no longer.
	UpgradeReasonClusterCapabilitiesChanged UpgradeReason = "ClusterCapabilitiesChanged"
	// UpgradeReasonUserRequested is an upgrade that the annotation
	// demo.example.com/force-at asked for.
	UpgradeReasonUserRequested UpgradeReason = "UserRequested"
	// UpgradeReasonRemediation is a rollback after an upgrade that failed.
	UpgradeReasonRemediation UpgradeReason = "Remediation"
)
