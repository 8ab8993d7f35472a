// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
)

// LabelMemcachedBackup is the label of a Deployment and of its pods that holds the name of
// the MemcachedBackup. The Deployment selects its pods by this label.
const LabelMemcachedBackup = "cache.my.domain/memcachedbackup"

// MaxNodes is the maximum number of names in status.nodes.
const MaxNodes = 1000

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memcachedbackups,singular=memcachedbackup,scope=Namespaced,shortName=mcb,categories=all;cache;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="Desired number of pods."
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Number of pods that are ready."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the MemcachedBackup was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters: the name is the value of a label of the pods",fieldPath=".metadata"

// MemcachedBackup runs a number of memcached pods.
type MemcachedBackup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name has at most 63 characters, because
	// the pods have a label with the name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:default={}
	// +optional
	Spec MemcachedBackupSpec `json:"spec,omitempty"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status MemcachedBackupStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// MemcachedBackupList is a list of MemcachedBackups.
type MemcachedBackupList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MemcachedBackups.
	Items []MemcachedBackup `json:"items"`
}

// MemcachedBackupSpec is the desired state of a MemcachedBackup.
type MemcachedBackupSpec struct {
	// size is the number of pods, 0 to 1000. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Size *int32 `json:"size,omitempty"`
}

// MemcachedBackupStatus is the observed state of a MemcachedBackup.
type MemcachedBackupStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled. It is -1
	// before the first time.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// nodes are the names of the pods, sorted. Pods that are being deleted are left out. Of
	// more than 1000 pods, the first 1000 are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Nodes []string `json:"nodes,omitempty"`

	// readyReplicas is the number of pods that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
