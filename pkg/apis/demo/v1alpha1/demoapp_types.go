// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Finalizer is added to every DemoApp before its release is installed. It is removed
// after the audit record is written and the release is uninstalled.
const Finalizer = "demo.example.com/audit-and-cleanup"

// Labels of the audit record of a deleted DemoApp.
const (
	// LabelSourceNamespace holds the namespace of the deleted DemoApp.
	LabelSourceNamespace = "demo.example.com/source-namespace"
	// LabelSourceName holds the name of the deleted DemoApp.
	LabelSourceName = "demo.example.com/source-name"
)

// Annotations of the audit record.
const (
	// AnnotationSourceUID holds the UID of the deleted DemoApp.
	AnnotationSourceUID = "demo.example.com/source-uid"
	// AnnotationAuditDetail is "digests" on a record that holds digests and sizes of the
	// spec and the status instead of their content. Other records do not have the
	// annotation.
	AnnotationAuditDetail = "demo.example.com/audit-detail"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=demoapps,singular=demoapp,scope=Namespaced,shortName=da,categories=all;demo;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicaCount,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the release is deployed and its workload healthy."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the app is ready or not ready, in one word."
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`,description="Number of ready pods."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`,description="The text that the page shows."
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.deployedRelease.revision`,description="Revision of the deployed Helm release."
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,description="URL of the app inside the cluster."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the DemoApp was created."
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the app is ready or not ready, in a sentence."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 53",message="metadata.name must have at most 53 characters: the Helm release is named after the DemoApp",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the Service is named after the DemoApp",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.waitFor) || self.spec.waitFor != self.metadata.name",message="must name another DemoApp, not this one",fieldPath=".spec.waitFor"

// DemoApp is a small web page, served by the Helm chart demo-app that is embedded in the
// operator. The operator installs one release of the chart with the name and namespace of
// the DemoApp. It keeps the release in the desired state, and reports its actions and their reasons
// in the status.
//
// The release consists of a Deployment, a Service, a ConfigMap and a Secret, all named
// after the DemoApp. spec.ingress adds an Ingress and an HTTPRoute. If other clients
// change fields that the chart sets, the operator corrects the drift, unless spec.drift
// says otherwise. Fields that other clients add are kept. When the DemoApp is deleted, an
// audit record is written to the audit namespace before the release is uninstalled.
type DemoApp struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is at most 53
	// characters long and a DNS-1035 label, because the Helm release and the
	// Service are named after the DemoApp.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the app.
	// +required
	Spec DemoAppSpec `json:"spec"`

	// status is the observed state of the app. Only the operator writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DemoAppStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// DemoAppList is a list of DemoApps.
type DemoAppList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DemoApps.
	Items []DemoApp `json:"items"`
}

// DemoAppSpec is the desired state of an app. Exactly one of apiKey and apiKeyFrom is
// required. All other fields have defaults or are optional.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiKey) || has(self.apiKeyFrom)",message="apiKey or apiKeyFrom is required",fieldPath=".apiKey",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.apiKey) || !has(self.apiKeyFrom)",message="must not be set together with apiKey",fieldPath=".apiKeyFrom",reason=FieldValueForbidden
type DemoAppSpec struct {
	// replicaCount is the number of pods, 0 to 100. Defaults to 1. "kubectl scale" sets
	// this field.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`

	// image is the container image of the web server: a reference with an
	// optional tag or digest, at most 512 characters. Defaults to
	// nginx:1.27-alpine.
	// +kubebuilder:default="nginx:1.27-alpine"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9:]+[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')`,message="must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +optional
	Image string `json:"image,omitempty"`

	// message is the plain text that the page shows, at most 4096 characters. HTML in it
	// is escaped. Defaults to "Hello from the hybrid operator". A change restarts the
	// pods.
	// +kubebuilder:default="Hello from the hybrid operator"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// apiKey is the API key of the app, 8 to 1024 characters. Every user who may read the
	// DemoApp can read it: prefer apiKeyFrom. apiKey and apiKeyFrom are mutually
	// exclusive. A change restarts the pods.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	APIKey string `json:"apiKey,omitempty"`

	// apiKeyFrom names the Secret key that holds the API key of the app. The value has
	// the limits of apiKey. apiKey and apiKeyFrom are mutually exclusive. The Secret is
	// watched: a changed value restarts the pods, and the operator waits for a missing
	// Secret.
	// +optional
	APIKeyFrom *releasev1alpha1.SecretKeyReference `json:"apiKeyFrom,omitempty"`

	// service configures the Service. Defaults to port 80 of a ClusterIP Service.
	// +kubebuilder:default={}
	// +optional
	Service ServiceSpec `json:"service,omitzero"`

	// ingress says how the app is reached from outside the cluster. Absent means that
	// only the Service exposes the app.
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`

	// waitFor is the name of another DemoApp in this namespace. Nothing is installed or
	// upgraded until that DemoApp is deployed. If that DemoApp sets waitForReady, its
	// deployed revision must also have been healthy once. Absent means not to wait.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a DemoApp: lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit"
	// +optional
	WaitFor string `json:"waitFor,omitempty"`

	// nodeName is the name of the node that the pods run on. Absent means any node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a node: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	releasev1alpha1.ReleasePolicy `json:",inline"`

	// valuesFrom names ConfigMaps and Secrets with further values of the chart, at most
	// 16. A later reference overrides an earlier one, and spec.values overrides all
	// references. Fields of the spec that set a value of the chart override all of them.
	// The objects are watched: a changed value upgrades the release.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ValuesFrom []releasev1alpha1.ValuesReference `json:"valuesFrom,omitempty"`

	// values are further values of the chart, checked by the chart's schema. See
	// valuesFrom for the precedence.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// ServiceType is a type of a core Service.
//
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
type ServiceType string

// The service types.
const (
	// ServiceTypeClusterIP makes the app reachable inside the cluster only.
	ServiceTypeClusterIP ServiceType = "ClusterIP"
	// ServiceTypeNodePort also opens a port on every node.
	ServiceTypeNodePort ServiceType = "NodePort"
	// ServiceTypeLoadBalancer also asks the cloud provider for a load balancer.
	ServiceTypeLoadBalancer ServiceType = "LoadBalancer"
)

// ServiceSpec configures the Service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type != 'ClusterIP'",message="needs type NodePort or LoadBalancer",fieldPath=".nodePort",reason=FieldValueForbidden
type ServiceSpec struct {
	// type is ClusterIP (reachable inside the cluster only), NodePort (also a port on
	// every node) or LoadBalancer (also a load balancer of the cloud provider). Defaults
	// to ClusterIP.
	// +kubebuilder:default=ClusterIP
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// port is the port of the Service, 1 to 65535. Defaults to 80.
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// nodePort is the port on every node, 1 to 65535, within the node port range of the
	// cluster. It is allowed for the types NodePort and LoadBalancer only. Absent means
	// that the cluster chooses a port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// DemoAppStatus is the observed state of an app.
type DemoAppStatus struct {
	releasev1alpha1.ReleaseStatus `json:",inline"`

	// url is the URL of the app inside the cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// externalURL is the URL of the app outside the cluster. It is absent while no object
	// that spec.ingress requests is deployed, and for a host with "*".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	ExternalURL string `json:"externalURL,omitempty"`

	// ingressHost is spec.ingress.host as last deployed with an Ingress or an HTTPRoute.
	// While it is set, no other DemoApp of the namespace gets the host.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IngressHost string `json:"ingressHost,omitempty"`

	// nodePort is spec.service.nodePort as last deployed. While it is set, no other
	// DemoApp of the namespace gets the port. If the spec no longer requests a port, the
	// Service keeps this one. The field is cleared when the type becomes ClusterIP or the
	// Service is created again.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}
