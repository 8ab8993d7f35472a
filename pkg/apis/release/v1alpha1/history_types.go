// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HistoryLimit is how many entries status.history has at most.
const HistoryLimit = 5

// HistoryAction is what the operator did to a release.
//
// +kubebuilder:validation:Enum=Install;Upgrade;Repair;Rollback
type HistoryAction string

// The actions of a history.
const (
	// HistoryInstall is the first install, or one after the release was gone.
	HistoryInstall HistoryAction = "Install"
	// HistoryUpgrade is a new revision.
	HistoryUpgrade HistoryAction = "Upgrade"
	// HistoryRepair is a correction of drift, without a new revision.
	HistoryRepair HistoryAction = "Repair"
	// HistoryRollback is a new revision with the content of an earlier one.
	HistoryRollback HistoryAction = "Rollback"
)

// HistoryOutcome is how an action ended.
//
// +kubebuilder:validation:Enum=Succeeded;Failed
type HistoryOutcome string

// The outcomes of a history.
const (
	// HistorySucceeded is an action that did what it was to do.
	HistorySucceeded HistoryOutcome = "Succeeded"
	// HistoryFailed is an action that did not.
	HistoryFailed HistoryOutcome = "Failed"
)

// HistoryEntry is one thing that the operator did to the release.
type HistoryEntry struct {
	// time is when it last happened.
	// +required
	Time metav1.Time `json:"time"`

	// action is Install, Upgrade, Repair or Rollback.
	// +required
	Action HistoryAction `json:"action"`

	// outcome is Succeeded or Failed.
	// +required
	Outcome HistoryOutcome `json:"outcome"`

	// reason is why it was done, as in lastUpgradeReason.
	// +optional
	Reason UpgradeReason `json:"reason,omitempty"`

	// revision is the revision that it left. It is absent where a failure left
	// none.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// chartVersion is the version of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ChartVersion string `json:"chartVersion,omitempty"`

	// generation is the generation of the spec that it was done for.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// count is how many times in a row it was done with this outcome. Absent means
	// once.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Count int64 `json:"count,omitempty"`
}

// FailureCounts count what failed.
type FailureCounts struct {
	// consecutive is how many attempts at the current generation have failed since
	// the last one that succeeded. Remediation goes by it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Consecutive int64 `json:"consecutive,omitempty"`

	// generation is the generation of the spec that consecutive counts for.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// inputs stands for the chart, what the cluster supports, and the versions of the
	// ConfigMaps and Secrets that consecutive counts for. It is not made from what
	// they hold. Its form is private to the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Inputs string `json:"inputs,omitempty"`

	// chart identifies the chart that consecutive counts for. Its form is private to the
	// operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Chart string `json:"chart,omitempty"`

	// action is what failed last: Install, Upgrade, Repair or Rollback. It is absent
	// while the condition Failed is.
	// +optional
	Action HistoryAction `json:"action,omitempty"`

	// installs is how many installs failed, ever.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Installs int64 `json:"installs,omitempty"`

	// upgrades is how many upgrades failed, ever.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Upgrades int64 `json:"upgrades,omitempty"`

	// repairs is how many corrections of drift failed, ever.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Repairs int64 `json:"repairs,omitempty"`

	// rollbacks is how many rollbacks failed, ever.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Rollbacks int64 `json:"rollbacks,omitempty"`
}
