// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReleaseStatus is the observed state of a release and the last actions of the operator
// on it. A kind inlines it in its status.
type ReleaseStatus struct {
	// conditions are the observed conditions of the app. Ready, Reconciling and Stalled
	// follow the kstatus contract that "kubectl wait", Argo CD, Flux and Helm read: Ready
	// means deployed and healthy, Stalled means that a user must act. Deployed, Failed,
	// Remediated, Initialized, DependencyReady, Validated, Licensed, UpgradeHeld,
	// Suspended, Exposed and Drifted give the details. Each condition carries the
	// generation for which it was observed.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled
	// completely. It is -1 before the first reconcile.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deployedRelease is the deployed Helm release. It is absent until the first install
	// succeeds.
	// +optional
	DeployedRelease *DeployedRelease `json:"deployedRelease,omitempty"`

	// lastUpgradeReason is why the operator last changed the objects of the
	// release: SpecGenerationChanged, DriftDetected, PeriodicResync,
	// CrossCRDependencyBecameReady, RetryAfterFailure, ChartChanged, OperatorChanged,
	// ClusterCapabilitiesChanged, UserRequested, Remediation or TakenOver.
	// +optional
	LastUpgradeReason UpgradeReason `json:"lastUpgradeReason,omitempty"`

	// lastUpgradeAt is when the operator last changed the objects of the
	// release.
	// +optional
	LastUpgradeAt *metav1.Time `json:"lastUpgradeAt,omitempty"`

	// appliedManifestHash is the SHA-256 of the deployed manifest, as 64 lower-case
	// hexadecimal digits. Equal manifests of a release have equal hashes. The values of
	// Secrets are blanked. The hash is keyed, so that values cannot be guessed from it.
	// Its key is in the Helm record.
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +optional
	AppliedManifestHash string `json:"appliedManifestHash,omitempty"`

	// sources identifies the versions of the objects that the spec names, such as Secrets, as of the
	// last install or upgrade. A change of these is a change of the object itself, so it does not
	// wait for the rollout of what changes many objects.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Sources string `json:"sources,omitempty"`

	// revisions are the revisions of the release whose Helm records the operator trusts,
	// at most 128, each with a digest of its manifest and hooks. The content of a record
	// with another digest is never applied. The operator makes such a revision again from
	// the chart.
	// +listType=map
	// +listMapKey=revision
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Revisions []RevisionDigest `json:"revisions,omitempty"`

	// inventory lists the objects of the release, at most 1000, each with a digest of the
	// fields that the operator owns. A live object with another digest has drifted.
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

	// lastHandledRequestedAt is the last value of the annotation
	// demo.example.com/requested-at that the operator handled.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	LastHandledRequestedAt string `json:"lastHandledRequestedAt,omitempty"`

	// lastHandledForceAt is the last value of the annotation demo.example.com/force-at
	// that the operator handled.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	LastHandledForceAt string `json:"lastHandledForceAt,omitempty"`

	// lastGoodRevision is the last revision that was deployed and healthy, or the
	// rollback to it. Remediation rolls back to it.
	// +kubebuilder:validation:Minimum=1
	// +optional
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`

	// history lists the last actions of the operator on the release, the newest first, at
	// most 5 entries.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +optional
	History []HistoryEntry `json:"history,omitempty"`

	// failures count failed actions. Absent means that no action has failed.
	// +optional
	Failures *FailureCounts `json:"failures,omitempty"`
}

// DeployedRelease names a revision of a Helm release and its chart.
type DeployedRelease struct {
	// name is the name of the release, mostly the name of the object.
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

	// appVersion is the version of the app, according to the chart. It may be absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	AppVersion string `json:"appVersion,omitempty"`
}

// RevisionDigest identifies the recorded content of one revision of the release.
type RevisionDigest struct {
	// revision is the number of the revision.
	// +kubebuilder:validation:Minimum=1
	// +required
	Revision int64 `json:"revision"`

	// digest is a keyed digest of the revision's manifest and hooks. Its key is in the
	// Helm record, so the digest reveals nothing to users who may not read the record.
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

	// namespace is the namespace of the object. It is absent for a cluster-scoped object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid distinguishes the object from an earlier or later object of the same name.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// digest identifies the fields that the operator owns in the object, as of its last
	// write. Its format is private to the operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`

	// contested means that another client changes the object again after each correction, so
	// that corrections wait.
	// +optional
	Contested bool `json:"contested,omitempty"`

	// ended is the result of an object that runs to its end and is then deleted, such as a Job
	// with ttlSecondsAfterFinished. Its deletion is then no drift.
	// +kubebuilder:validation:Enum=Succeeded;Failed
	// +optional
	Ended string `json:"ended,omitempty"`
}
