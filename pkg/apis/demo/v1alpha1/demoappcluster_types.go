// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels of the DemoApps that a DemoAppCluster makes.
const (
	// LabelCluster holds the name of the DemoAppCluster.
	LabelCluster = "demo.example.com/cluster"
	// LabelNode holds the name of the node, shortened with a hash where it is too
	// long for a label.
	LabelNode = "demo.example.com/node"
	// LabelTemplateHash holds the hash of the template that the DemoApp was made
	// from.
	LabelTemplateHash = "demo.example.com/template-hash"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=demoappclusters,singular=demoappcluster,scope=Namespaced,shortName=dac,categories=all;demo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every node has its app, up to date and ready."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready, or why it is not, in one word."
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desired`,description="Number of nodes that are to have an app."
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.current`,description="Number of apps that exist."
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updated`,description="Number of apps of the current template."
// +kubebuilder:printcolumn:name="AppsReady",type=integer,JSONPath=`.status.ready`,description="Number of apps that are ready."
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Number of apps that failed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the DemoAppCluster was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 42",message="metadata.name must have at most 42 characters: the DemoApps are named after it and their nodes",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the DemoApps are named after it",fieldPath=".metadata"

// DemoAppCluster keeps one DemoApp for each node that matches. The DemoApps
// belong to it: when it is deleted, they are, and each leaves its audit record.
type DemoAppCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is at most 42 characters
	// long and a DNS-1035 label, because the DemoApps are named after it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what there should be.
	// +required
	Spec DemoAppClusterSpec `json:"spec"`

	// status is what the operator last saw. It is written by the operator only.
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

// DemoAppClusterSpec is what there should be.
type DemoAppClusterSpec struct {
	// nodeSelector selects the nodes by their labels, at most 32 of them; all must
	// match. Absent or empty selects every node.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// template is what the DemoApps are made from.
	// +required
	Template DemoAppTemplate `json:"template"`

	// updateStrategy says how a change of the template is rolled out.
	// +kubebuilder:default={}
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`
}

// DemoAppTemplate is what the DemoApps of a DemoAppCluster are made from.
type DemoAppTemplate struct {
	// metadata holds the labels and annotations of the DemoApps.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`

	// spec is the spec of the DemoApps. Its nodeName is set to the node of each.
	// +kubebuilder:validation:XValidation:rule="!has(self.nodeName)",message="nodeName must not be set: each DemoApp has that of its node",fieldPath=".nodeName",reason=FieldValueForbidden
	// +required
	Spec DemoAppSpec `json:"spec"`
}

// TemplateMetadata is the part of an object's metadata that a template has.
type TemplateMetadata struct {
	// labels of the DemoApps, at most 32. Those of the operator win over them.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the DemoApps, at most 32. A template cannot have DemoApps adopt
	// releases that others made.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="!('demo.example.com/adopt-release' in self)",message="demo.example.com/adopt-release must be set on a DemoApp itself"
	// +optional
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LabelValue is the value of a label: at most 63 characters.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// AnnotationValue is the value of an annotation: at most 4096 characters.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// UpdateStrategy says how a change of the template is rolled out.
type UpdateStrategy struct {
	// maxUnavailable is how many DemoApps may be not ready because of the rollout,
	// as a number, at least 1, or as a share of the desired ones, such as 10%,
	// rounded up. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number, at least 1, or 1% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DemoAppClusterStatus is what the operator last saw.
type DemoAppClusterStatus struct {
	// conditions say where the rollout stands: Ready, Reconciling and Stalled, as
	// the kstatus contract has them.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last reconciled. It
	// is -1 before the first time.
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// desired is the number of nodes that are to have a DemoApp.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Desired int32 `json:"desired"`

	// current is the number of DemoApps that exist for these nodes.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Current int32 `json:"current"`

	// updated is the number of DemoApps that were made from the current template.
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
}
