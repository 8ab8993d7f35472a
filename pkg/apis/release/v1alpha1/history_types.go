// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HistoryLimit is the maximum number of entries in status.history.
const HistoryLimit = 5

// HistoryAction is what the operator did to a release.
//
// +kubebuilder:validation:Enum=Install;Upgrade;Repair;Rollback
type HistoryAction string

// The actions of a history.
const (
	// HistoryInstall is the first install, or an install after the release was removed.
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
	// HistorySucceeded means that the action succeeded.
	HistorySucceeded HistoryOutcome = "Succeeded"
	// HistoryFailed means that the action failed.
	HistoryFailed HistoryOutcome = "Failed"
)

// HistoryEntry is one action of the operator on the release. Equal actions in a row share
// an entry.
type HistoryEntry struct {
	// time is the time of the action, or of the last one in a row.
	// +required
	Time metav1.Time `json:"time"`

	// action is Install, Upgrade, Repair or Rollback.
	// +required
	Action HistoryAction `json:"action"`

	// outcome is Succeeded or Failed.
	// +required
	Outcome HistoryOutcome `json:"outcome"`

	// reason is why the action was taken, as in lastUpgradeReason.
	// +optional
	Reason UpgradeReason `json:"reason,omitempty"`

	// revision is the revision that the action created. It is absent if a failed action
	// created none.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// chartVersion is the version of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ChartVersion string `json:"chartVersion,omitempty"`

	// generation is the generation of the spec that the action applied.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// changed names the inputs that differ from the previous revision: "chart" for the files of the
	// chart, "owner" for the object that the release belongs to, and the paths of values, such as
	// "values.image.tag". It never has a value. Lists are compared as a whole. A key that neither
	// values.yaml nor values.schema.json of the chart names may be secret, so the path of the
	// object with the key stands for it: "values.env", or only "values". It is absent for the first
	// revision, for a repair, if nothing differs, and if the previous revision cannot be read.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	// +optional
	Changed []string `json:"changed,omitempty"`

	// changedMore is the number of changes beyond the 10 that changed names.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ChangedMore int64 `json:"changedMore,omitempty"`

	// count is how many times in a row the action ended with this outcome. Absent means
	// once.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Count int64 `json:"count,omitempty"`
}

// FailureCounts count failed actions.
type FailureCounts struct {
	// consecutive is the number of failed attempts at the current generation since the
	// last success. Remediation compares it with spec.remediation.retries.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Consecutive int64 `json:"consecutive,omitempty"`

	// generation is the generation of the spec that consecutive counts for.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// inputs identifies the inputs that consecutive counts for: the chart, the
	// capabilities of the cluster, and the versions of the ConfigMaps and Secrets. It is
	// not derived from their content. Its format is private to the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Inputs string `json:"inputs,omitempty"`

	// chart identifies the chart that consecutive counts for. Its format is private to
	// the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Chart string `json:"chart,omitempty"`

	// terminal says that a quick retry of the last failed attempt cannot succeed.
	// Remediation follows at once, although retries are left.
	// +optional
	Terminal bool `json:"terminal,omitempty"`

	// retryAt is the time of the next attempt at a change that was given up or rolled back.
	// It is absent if no attempt follows before an input changes, because the inputs alone
	// decide that the change fails, or because a hook or the workload failed.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`

	// capabilities identifies the kinds and the version of the API server at the last failed
	// attempt. It is absent unless the attempt depended on them. Other capabilities start
	// afresh. Its format is private to the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Capabilities string `json:"capabilities,omitempty"`

	// causedByObject says that the object or its namespace caused the last failed attempt,
	// and not the chart: the API server refused an object, an object has another owner, or
	// the values do not meet the schema of the chart. Such a failure does not halt the
	// rollout of a change of the operator.
	// +optional
	CausedByObject bool `json:"causedByObject,omitempty"`

	// change is why the change failed that a failed rollback was to undo. It is absent unless the
	// condition Failed is about a rollback.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Change string `json:"change,omitempty"`

	// action is the action that failed last: Install, Upgrade, Repair or Rollback. It is
	// absent while the condition Failed is absent.
	// +optional
	Action HistoryAction `json:"action,omitempty"`

	// installs is the total number of failed installs.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Installs int64 `json:"installs,omitempty"`

	// upgrades is the total number of failed upgrades.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Upgrades int64 `json:"upgrades,omitempty"`

	// repairs is the total number of failed corrections of drift.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Repairs int64 `json:"repairs,omitempty"`

	// rollbacks is the total number of failed rollbacks.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Rollbacks int64 `json:"rollbacks,omitempty"`
}
