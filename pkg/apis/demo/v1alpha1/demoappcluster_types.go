// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels of the DemoApps of a DemoAppCluster.
const (
	// LabelCluster holds the name of the DemoAppCluster.
	LabelCluster = "demo.example.com/cluster"
	// LabelNode holds the name of the node. A name that is too long for a label is
	// shortened and gets a hash.
	LabelNode = "demo.example.com/node"
	// LabelTemplateHash holds the hash of the template that the DemoApp was created from.
	LabelTemplateHash = "demo.example.com/template-hash"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=demoappclusters,singular=demoappcluster,scope=Namespaced,shortName=dac,categories=all;demo;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every selected node has an app that is up to date and ready."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the DemoAppCluster is ready or not ready, in one word."
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Number of selected nodes, each of which gets an app."
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.current`,description="Number of apps that exist."
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updated`,description="Number of apps of the current template."
// +kubebuilder:printcolumn:name="AppsReady",type=integer,JSONPath=`.status.ready`,description="Number of apps that are ready."
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Number of apps that failed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the DemoAppCluster was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 42",message="metadata.name must have at most 42 characters: the DemoApps are named after it and their nodes",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the DemoApps are named after it",fieldPath=".metadata"

// DemoAppCluster creates one DemoApp for each selected node. It owns the DemoApps: they
// are deleted with it, and each leaves its audit record.
type DemoAppCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is at most 42 characters
	// long and a DNS-1035 label, because the DemoApps are named after it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec DemoAppClusterSpec `json:"spec"`

	// status is the observed state. Only the operator writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DemoAppClusterStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// DemoAppClusterList is a list of DemoAppClusters.
type DemoAppClusterList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DemoAppClusters.
	Items []DemoAppCluster `json:"items"`
}

// DemoAppClusterSpec is the desired state of a DemoAppCluster.
type DemoAppClusterSpec struct {
	// nodeSelector selects nodes by their labels, at most 32. A node must match all of
	// them. Absent or empty selects every node.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// template describes the DemoApps.
	// +required
	Template DemoAppTemplate `json:"template"`

	// updateStrategy says how a change of the template is rolled out.
	// +kubebuilder:default={}
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`

	// removalGracePeriod is how long a DemoApp stays after its node is gone, or after the
	// node has lost a label of nodeSelector, 0s to 168h. If the node comes back in this
	// time, nothing happens. A change of nodeSelector acts at once. Defaults to 5m. With
	// 0s, DemoApps are deleted at once.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) <= duration('168h')",message="must be a duration from 0s to 168h, such as 90s or 1h30m"
	// +optional
	RemovalGracePeriod *metav1.Duration `json:"removalGracePeriod,omitempty"`
}

// DemoAppTemplate describes the DemoApps of a DemoAppCluster.
type DemoAppTemplate struct {
	// metadata holds the labels and annotations of the DemoApps.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`

	// spec is the spec of the DemoApps. The operator sets nodeName to the node of each
	// DemoApp.
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeName)",message="must not be set: the operator sets it to the node of each DemoApp",fieldPath=".nodeName",reason=FieldValueForbidden
	// +required
	Spec DemoAppSpec `json:"spec"`
}

// TemplateMetadata is the metadata that a template may set.
type TemplateMetadata struct {
	// labels of the DemoApps, at most 32. Labels that the operator sets override them.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the DemoApps, at most 32. demo.example.com/adopt-release is not
	// allowed, because each adoption must be requested on the DemoApp itself.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="!('demo.example.com/adopt-release' in self)",message="demo.example.com/adopt-release must be set on a DemoApp itself"
	// +optional
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LabelValue is the value of a label: at most 63 characters.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
type LabelValue string

// AnnotationValue is the value of an annotation: at most 4096 characters.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// UpdateStrategy says how a change of the template is rolled out.
type UpdateStrategy struct {
	// maxUnavailable is how many DemoApps may be unavailable during the rollout. It is a
	// number, at least 1, or a percentage of the desired DemoApps, such as 10%, rounded
	// up. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number, at least 1, or 1% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DemoAppClusterStatus is the observed state of a DemoAppCluster.
type DemoAppClusterStatus struct {
	// conditions are Ready, Reconciling and Stalled of the kstatus contract.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled. It is -1
	// before the first reconcile.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// desired is the number of selected nodes. Each of them gets a DemoApp.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Desired int32 `json:"desired"`

	// current is the number of DemoApps that exist for these nodes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Current int32 `json:"current"`

	// updated is the number of DemoApps of the current template.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Updated int32 `json:"updated"`

	// ready is the number of DemoApps that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Ready int32 `json:"ready"`

	// failed is the number of DemoApps that failed or are stalled.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Failed int32 `json:"failed"`

	// pendingRemovals are the DemoApps whose node is gone or has lost a label, by name, at
	// most 500. Further DemoApps stay until the list has room for them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	// +optional
	PendingRemovals []PendingRemoval `json:"pendingRemovals,omitempty"`

	// nodeSelector is the nodeSelector that the DemoApps follow, in the form of kubectl's
	// --selector; empty for every node. It shows whether spec.nodeSelector or a node has
	// changed.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	NodeSelector *string `json:"nodeSelector,omitempty"`
}

// MaxPendingRemovals is the number of DemoApps that status.pendingRemovals may list.
const MaxPendingRemovals = 500

// PendingRemoval is a DemoApp without a selected node that is deleted unless the node comes back.
type PendingRemoval struct {
	// name of the DemoApp.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// since is when the operator first saw that the node is gone or has lost a label.
	// +required
	Since metav1.Time `json:"since"`

	// until is when the DemoApp is deleted: removalGracePeriod after since.
	// +required
	Until metav1.Time `json:"until"`
}
