// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
)

// LabelStack is the label of the children of an AppStack and of its pods that holds the name of
// the AppStack. LabelComponent holds the name of the component.
const (
	LabelStack     = "app.example.com/stack"
	LabelComponent = "app.example.com/component"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=appstacks,singular=appstack,scope=Namespaced,shortName=stack,categories=all;app;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Summary of the conditions."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether all components are ready."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].message`,description="What the stack waits for."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the AppStack was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 34 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 34 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the PostgreSQL is named <name>-db, and has at most 37 characters",fieldPath=".metadata"

// AppStack runs an application of a database, a cache, a backend and a frontend. Failover of the
// database is manual, replication is asynchronous, and there is no recovery to a point in time.
type AppStack struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 34
	// characters: the PostgreSQL is named <name>-db, and has at most 37 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AppStackSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status AppStackStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// AppStackList is a list of AppStacks.
type AppStackList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AppStacks.
	Items []AppStack `json:"items"`
}

// AppStackSpec is the desired state of an AppStack. The components start in the order of
// its fields, each when those before it are ready.
type AppStackSpec struct {
	// database is the PostgreSQL of the stack.
	// +kubebuilder:default={}
	// +optional
	Database AppStackDatabase `json:"database,omitzero"`

	// cache is the cache of the stack.
	// +kubebuilder:default={}
	// +optional
	Cache AppStackCache `json:"cache,omitzero"`

	// backend reaches the database and the cache.
	// +required
	Backend AppStackComponent `json:"backend"`

	// frontend reaches the backend.
	// +required
	Frontend AppStackComponent `json:"frontend"`
}

// AppStackDatabase is the PostgreSQL of an AppStack.
type AppStackDatabase struct {
	// version is the major version of PostgreSQL, 12 to 18. Defaults to 17.
	// +kubebuilder:default="17"
	// +kubebuilder:validation:Enum="12";"13";"14";"15";"16";"17";"18"
	// +optional
	Version string `json:"version,omitempty"`

	// storage is the size of each volume in Gi. Defaults to 10Gi.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^0*[1-9][0-9]*Gi$')",message="must be a size in Gi of at least 1Gi, such as 10Gi"
	// +optional
	Storage string `json:"storage,omitempty"`

	// resources are the compute resources of the server. The default requests keep the pods out
	// of the QoS class BestEffort.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`
}

// AppStackCache is the cache of an AppStack.
type AppStackCache struct {
	// enabled runs a cache. Defaults to true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// image is the container image of the cache, which listens on port 6379 as user 999.
	// Defaults to redis:7-alpine.
	// +kubebuilder:default="redis:7-alpine"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9:]+[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')`,message="must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +optional
	Image string `json:"image,omitempty"`

	// replicas is the number of pods, 1 to 100. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// resources are the compute resources of each pod. The default requests keep the pods out
	// of the QoS class BestEffort.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`
}

// AppStackComponent is the backend or the frontend of an AppStack.
type AppStackComponent struct {
	// image is the container image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9:]+[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')`,message="must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +required
	Image string `json:"image"`

	// replicas is the number of pods, 1 to 100. Defaults to 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// port is where the container listens. Defaults to 8080.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// resources are the compute resources of each pod. The default requests keep the pods out
	// of the QoS class BestEffort.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`

	// securityContext is the user of the container. With runAsNonRoot true, or a runAsUser other than
	// 0, and in namespaces that enforce the restricted Pod Security profile, the pods meet this
	// profile. Otherwise they may run as root.
	// +optional
	SecurityContext *workloadv1alpha1.UserContext `json:"securityContext,omitempty"`
}

// AppStackStatus is the observed state of an AppStack.
type AppStackStatus struct {
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

	// phase is a summary of the conditions. The operator does not read it.
	// +kubebuilder:validation:Enum=Pending;Deploying;Running;Degraded;Failed
	// +optional
	Phase string `json:"phase,omitempty"`

	// components are the states of database, cache, backend and frontend, in this order.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Components []childv1alpha1.ComponentStatus `json:"components,omitempty"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
