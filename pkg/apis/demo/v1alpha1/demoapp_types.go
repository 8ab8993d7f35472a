// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Finalizer is put on every DemoApp before anything is installed for it. It
// is removed after the audit record is written and the release is
// uninstalled.
const Finalizer = "demo.example.com/audit-and-cleanup"

// Labels of the audit record that the deletion of a DemoApp leaves behind.
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
	// AnnotationAuditDetail is "digests" on a record that holds the digests and
	// sizes of the spec and the status, and not their contents. It is absent on
	// others.
	AnnotationAuditDetail = "demo.example.com/audit-detail"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=demoapps,singular=demoapp,scope=Namespaced,shortName=da,categories=all;demo
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicaCount,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the release is deployed and its workload healthy."
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the app is ready, or why it is not, in one word."
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`,description="Number of ready pods."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`,description="The text that the app shows."
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.deployedRelease.revision`,description="Revision of the deployed Helm release."
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,description="Where the app answers inside the cluster."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the DemoApp was created."
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the app is ready, or why it is not, in a sentence."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 53",message="metadata.name must have at most 53 characters: the Helm release is named after the DemoApp",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): the Service is named after the DemoApp",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.waitFor) || self.spec.waitFor != self.metadata.name",message="waitFor must name another DemoApp, not this one",fieldPath=".spec.waitFor"

// DemoApp is a small web page, served by the Helm chart demo-app that is
// embedded in the operator. The operator installs one release of the chart
// with the name and namespace of the DemoApp, keeps it as the spec says, and
// reports in the status what it did and why.
//
// The release consists of a Deployment, a Service, a ConfigMap and a Secret,
// and with spec.ingress of an Ingress and an HTTPRoute, all named after the
// DemoApp. Unless spec.drift says otherwise, whatever others change in them that
// the chart sets is set back, and what they add is left alone. When the DemoApp is
// deleted, a record is written to the audit namespace before the release is
// uninstalled.
type DemoApp struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is at most 53
	// characters long and a DNS-1035 label, because the Helm release and the
	// Service are named after the DemoApp.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the app should be.
	// +required
	Spec DemoAppSpec `json:"spec"`

	// status is what the operator last saw and did. It is written by the
	// operator only.
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

// DemoAppSpec is what the app should be. Exactly one of apiKey and
// apiKeyFrom is needed; everything else has a default.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiKey) || has(self.apiKeyFrom)",message="apiKey or apiKeyFrom is required",fieldPath=".apiKey",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.apiKey) || !has(self.apiKeyFrom)",message="apiKeyFrom must not be set together with apiKey",fieldPath=".apiKeyFrom",reason=FieldValueForbidden
type DemoAppSpec struct {
	// replicaCount is the number of pods, 0 to 100. Defaults to 1. It is also
	// what "kubectl scale" sets.
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
	// +kubebuilder:validation:XValidation:rule=`self.matches('^((([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[\\[][a-fA-F0-9:]+[\\]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')`,message="image must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>"
	// +optional
	Image string `json:"image,omitempty"`

	// message is the text that the page shows, at most 4096 characters. It is
	// plain text: whatever has a meaning in HTML is escaped. Defaults to "Hello
	// from the hybrid operator". A change rolls the pods.
	// +kubebuilder:default="Hello from the hybrid operator"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// apiKey is the key that the app is given, 8 to 1024 characters, in plain
	// sight of everybody who may read the DemoApp. Prefer apiKeyFrom. The two
	// exclude each other. A change rolls the pods.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	APIKey string `json:"apiKey,omitempty"`

	// apiKeyFrom names the Secret that holds the key that the app is given. The
	// value has the limits of apiKey, which this field excludes. The Secret is
	// watched: when the value changes, the pods are rolled; while it is missing,
	// the operator waits for it.
	// +optional
	APIKeyFrom *SecretKeyReference `json:"apiKeyFrom,omitempty"`

	// service is how the app is reached. Defaults to port 80 of a ClusterIP
	// Service.
	// +kubebuilder:default={}
	// +optional
	Service ServiceSpec `json:"service,omitzero"`

	// ingress is how the app is reached from outside the cluster. Absent means not
	// at all, but for what service says.
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`

	// waitFor is the name of another DemoApp in this namespace. As long as that
	// one is not deployed, nothing is installed or upgraded for this one. If that one
	// has waitForReady, its deployed revision also has to have been healthy once.
	// Absent means not to wait.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	WaitFor string `json:"waitFor,omitempty"`

	// nodeName is the name of the node that the pods run on. Absent means any.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	releasev1alpha1.ReleasePolicy `json:",inline"`

	// valuesFrom names further values of the chart, at most 16. Later ones win
	// over earlier ones, spec.values over all of them, and the fields of the spec
	// that have a value of the chart of their own over everything. The objects are
	// watched: when the values change, the release follows.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ValuesFrom []releasev1alpha1.ValuesReference `json:"valuesFrom,omitempty"`

	// values are further values of the chart, a free form that the chart's schema
	// checks. See valuesFrom for what wins.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// SecretKeyReference names one key of a Secret in the namespace of the
// referrer.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Name string `json:"name"`

	// key is the key within the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +required
	Key string `json:"key"`
}

// ServiceType is a way to expose the app, one of those of a core Service.
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

// ServiceSpec is how the app is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type != 'ClusterIP'",message="nodePort needs type NodePort or LoadBalancer",fieldPath=".nodePort",reason=FieldValueForbidden
type ServiceSpec struct {
	// type is ClusterIP (inside the cluster only), NodePort (also a port on
	// every node) or LoadBalancer (also a load balancer of the cloud provider).
	// Defaults to ClusterIP.
	// +kubebuilder:default=ClusterIP
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// port is the port of the Service, 1 to 65535. Defaults to 80.
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// nodePort is the port on every node, 1 to 65535, within the range that the
	// cluster allows; for the types NodePort and LoadBalancer only. Absent means
	// one that the cluster chooses.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// DemoAppStatus is what the operator last saw and did.
type DemoAppStatus struct {
	releasev1alpha1.ReleaseStatus `json:",inline"`

	// url is where the app answers inside the cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// externalURL is where the app answers outside the cluster. It is absent while
	// nothing that spec.ingress asks for is deployed, and for a host with "*".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	ExternalURL string `json:"externalURL,omitempty"`

	// ingressHost is spec.ingress.host as it was last deployed, with an Ingress or an
	// HTTPRoute. As long as it is here, no other DemoApp of the namespace gets that
	// host.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IngressHost string `json:"ingressHost,omitempty"`

	// nodePort is spec.service.nodePort as it was last deployed. A Service that asks
	// for none later keeps it, unless its type becomes ClusterIP or it is made anew.
	// As long as it is here, no other DemoApp of the namespace gets that port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}
