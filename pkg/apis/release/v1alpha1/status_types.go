// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReleaseStatus is what the operator observed of a release and did to it. A kind inlines
// it in its status.
type ReleaseStatus struct {
	// conditions say where the app stands. Ready, Reconciling and Stalled follow
	// the kstatus contract that "kubectl wait", Argo CD, Flux and Helm read:
	// Ready means deployed and healthy, Stalled means that a person must act.
	// Deployed, Failed, Remediated, Initialized, DependencyReady, Validated,
	// Licensed, UpgradeHeld, Suspended, Exposed and Drifted tell the rest. Each
	// carries the generation it was seen at.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled
	// from end to end. It is -1 before the first time.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deployedRelease is the Helm release that runs. It is absent before the
	// first install succeeded.
	// +optional
	DeployedRelease *DeployedRelease `json:"deployedRelease,omitempty"`

	// lastUpgradeReason is why the operator last changed the objects of the
	// release: SpecGenerationChanged, DriftDetected, PeriodicResync,
	// CrossCRDependencyBecameReady, RetryAfterFailure, ChartChanged,
	// ClusterCapabilitiesChanged, UserRequested or Remediation.
	// +optional
	LastUpgradeReason UpgradeReason `json:"lastUpgradeReason,omitempty"`

	// lastUpgradeAt is when the operator last changed the objects of the
	// release.
	// +optional
	LastUpgradeAt *metav1.Time `json:"lastUpgradeAt,omitempty"`

	// appliedManifestHash is the SHA-256 of the deployed manifest, as 64
	// lower-case hexadecimal digits. The values of Secrets are blanked, and the hash
	// has a key that is in the Helm record: otherwise it would let them be guessed.
	// Equal manifests of a release have equal hashes.
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +optional
	AppliedManifestHash string `json:"appliedManifestHash,omitempty"`

	// revisions are the revisions of the release whose Helm records the operator
	// relies on, at most 128, each with a digest of its manifest and hooks. The
	// content of a record that does not match is never applied: such a revision is
	// made again from the chart.
	// +listType=map
	// +listMapKey=revision
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Revisions []RevisionDigest `json:"revisions,omitempty"`

	// inventory lists the objects of the release, at most 1000, each with the
	// digest of the fields that the operator owns. A digest that no longer
	// agrees with the live object is drift.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Inventory []InventoryEntry `json:"inventory,omitempty"`

	// replicas is the number of pods that exist.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods of the app, in the form that "kubectl get -l"
	// takes. Autoscalers read it through the scale subresource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`

	// lastHandledRequestedAt is the value of the annotation
	// demo.example.com/requested-at that was last acted on.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	LastHandledRequestedAt string `json:"lastHandledRequestedAt,omitempty"`

	// lastHandledForceAt is the value of the annotation demo.example.com/force-at
	// that was last acted on.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	LastHandledForceAt string `json:"lastHandledForceAt,omitempty"`

	// lastGoodRevision is the last revision that was deployed and healthy, or that
	// brought such a one back. It is what remediation goes back to.
	// +kubebuilder:validation:Minimum=1
	// +optional
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`

	// history is what the operator last did to the release, the newest first, at
	// most 5 entries.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +optional
	History []HistoryEntry `json:"history,omitempty"`

	// failures count what failed. Absent means nothing.
	// +optional
	Failures *FailureCounts `json:"failures,omitempty"`
}

// DeployedRelease names a revision of a Helm release and the chart that it
// was made from.
type DeployedRelease struct {
	// name is the name of the release, that of the DemoApp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	// +required
	Name string `json:"name"`

	// revision counts the installs, upgrades and rollbacks of the release, from
	// 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Revision int64 `json:"revision"`

	// chart is the name of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Chart string `json:"chart"`

	// chartVersion is the version of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	ChartVersion string `json:"chartVersion"`

	// appVersion is the version of the app that the chart says it contains. It
	// may be absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	AppVersion string `json:"appVersion,omitempty"`
}

// RevisionDigest identifies what the operator recorded for a revision of the release.
type RevisionDigest struct {
	// revision is the number of the revision.
	// +kubebuilder:validation:Minimum=1
	// +required
	Revision int64 `json:"revision"`

	// digest is a keyed digest of the revision's manifest and hooks. Its key is in the
	// Helm record, so that the digest tells nothing to those who may not read that.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Digest string `json:"digest"`
}

// InventoryEntry is one object of the release.
type InventoryEntry struct {
	// apiVersion is the API group and version of the object, such as apps/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the object. It is absent for an object that
	// is in none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid tells the object from an earlier or later one of the same name.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// digest stands for the fields that the operator owns in the object, after
	// its last write. Its form is private to the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`
}
