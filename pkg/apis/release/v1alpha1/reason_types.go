// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// UpgradeReason is why the operator last changed the objects of a release.
//
// +kubebuilder:validation:Enum=SpecGenerationChanged;DriftDetected;PeriodicResync;CrossCRDependencyBecameReady;RetryAfterFailure;ChartChanged;OperatorChanged;ClusterCapabilitiesChanged;UserRequested;Remediation;TakenOver
type UpgradeReason string

// The reasons for a change of the objects of a release.
const (
	// UpgradeReasonSpecGenerationChanged is the first install, or a change of the spec or
	// of an object that the spec refers to.
	UpgradeReasonSpecGenerationChanged UpgradeReason = "SpecGenerationChanged"
	// UpgradeReasonDriftDetected is a repair after an event: another client changed or
	// deleted an object of the release, or the release itself.
	UpgradeReasonDriftDetected UpgradeReason = "DriftDetected"
	// UpgradeReasonPeriodicResync is a repair of drift that only the periodic resync
	// found.
	UpgradeReasonPeriodicResync UpgradeReason = "PeriodicResync"
	// UpgradeReasonCrossCRDependencyBecameReady is a change that waited until the object
	// named in waitFor was deployed.
	UpgradeReasonCrossCRDependencyBecameReady UpgradeReason = "CrossCRDependencyBecameReady"
	// UpgradeReasonRetryAfterFailure is a retry of a change that failed.
	UpgradeReasonRetryAfterFailure UpgradeReason = "RetryAfterFailure"
	// UpgradeReasonChartChanged is an upgrade to another chart, of a newer operator or of an entry of
	// watches.yaml.
	UpgradeReasonChartChanged UpgradeReason = "ChartChanged"
	// UpgradeReasonOperatorChanged is an upgrade to other values that the operator gives all
	// objects: defaults, overrides or a template of its configuration changed, or a newer
	// operator makes them. The object itself has not changed.
	UpgradeReasonOperatorChanged UpgradeReason = "OperatorChanged"
	// UpgradeReasonClusterCapabilitiesChanged is a change because the cluster began or
	// ceased to support a kind that spec.ingress requests.
	UpgradeReasonClusterCapabilitiesChanged UpgradeReason = "ClusterCapabilitiesChanged"
	// UpgradeReasonUserRequested is an upgrade that the annotation
	// demo.example.com/force-at requested.
	UpgradeReasonUserRequested UpgradeReason = "UserRequested"
	// UpgradeReasonRemediation is a rollback after a failed upgrade.
	UpgradeReasonRemediation UpgradeReason = "Remediation"
	// UpgradeReasonTakenOver is the first revision of a release that another client made.
	UpgradeReasonTakenOver UpgradeReason = "TakenOver"
)
