// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
)

// Finalizer holds a WebApp that is being deleted until the cleanup hook has succeeded.
const Finalizer = "webapp.example.com/finalizer"

// LabelWebApp is the label of the children of a WebApp and of its pods that holds the name
// of the WebApp.
const LabelWebApp = "example.com/webapp"

// Values of WebAppStatus.Phase.
const (
	// PhasePending: no Deployment exists yet, or a user must act and no pods are available.
	PhasePending = "Pending"
	// PhaseDeploying: pods start or are replaced.
	PhaseDeploying = "Deploying"
	// PhaseRunning: the pods are available, and none is being replaced.
	PhaseRunning = "Running"
)

// ConditionAvailable is the condition Available of the Deployment: enough pods can serve.
const ConditionAvailable = "Available"

// Reasons of the condition Available.
const (
	// ReasonMinimumReplicasAvailable: the Deployment has its minimum of available pods.
	ReasonMinimumReplicasAvailable = "MinimumReplicasAvailable"
	// ReasonMinimumReplicasUnavailable: the Deployment has fewer pods than its minimum.
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"
	// ReasonNoDeployment: the Deployment does not exist.
	ReasonNoDeployment = "NoDeployment"
)

// Reasons of Ready, Reconciling and Stalled, in addition to the reasons of every kind with children.
const (
	// ReasonImageBlocked: the operator does not roll spec.image out, see --blocked-images.
	ReasonImageBlocked = "ImageBlocked"
	// ReasonPodsRefused: the API server refuses the pods of the Deployment, for example
	// because of spec.securityContext.
	ReasonPodsRefused = "PodsRefused"
	// ReasonCleanupPending: the WebApp is being deleted, and the cleanup hook has not
	// succeeded yet.
	ReasonCleanupPending = "CleanupPending"
)

// ReasonCleanedUp is the reason of the event for a cleanup hook that succeeded.
const ReasonCleanedUp = "CleanedUp"

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=webapps,singular=webapp,scope=Namespaced,shortName=wa,categories=all;http;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Desired number of pods."
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Number of pods that are ready."
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Pending, Deploying or Running."
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="Container image."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the WebApp was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 63 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the Service is named after the WebApp",fieldPath=".metadata"

// WebApp runs a container image behind a Service.
type WebApp struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 63
	// characters: the Service is named after the WebApp.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec WebAppSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status WebAppStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// WebAppList is a list of WebApps.
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the WebApps.
	Items []WebApp `json:"items"`
}

// WebAppSpec is the desired state of a WebApp.
type WebAppSpec struct {
	// replicas is the number of pods, 1 to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +required
	Replicas int32 `json:"replicas"`

	// image is the container image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9]*:[a-fA-F0-9:]*[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@sha256:[a-f0-9]{64})?$')`,message="must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +required
	Image string `json:"image"`

	// port is where the container listens, and the port of the Service. Defaults to 8080.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// resources are the compute resources of the container.
	// +optional
	Resources *workloadv1alpha1.Resources `json:"resources,omitempty"`

	// securityContext is the security context of the container. Fields that are set replace the
	// defaults. With runAsNonRoot true, or a runAsUser other than 0, and in namespaces that enforce the
	// restricted Pod Security profile, the defaults fulfill this profile. Otherwise the container may run as
	// root.
	// +optional
	SecurityContext *workloadv1alpha1.SecurityContext `json:"securityContext,omitempty"`
}

// WebAppStatus is the observed state of a WebApp.
type WebAppStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract, and Available.
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
	// +kubebuilder:validation:Enum=Pending;Deploying;Running
	// +optional
	Phase string `json:"phase,omitempty"`

	// readyReplicas is the number of pods that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
