// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

	// suspend holds everything: nothing is installed, upgraded or repaired. Drift
	// is still reported, and deletion works. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// upgradeWindow says when changes may be rolled out. Outside of it they wait;
	// the first install, the correction of drift and the deletion do not. Absent
	// means at any time.
	// +optional
	UpgradeWindow *UpgradeWindow `json:"upgradeWindow,omitempty"`

	// valuesFrom names further values of the chart, at most 16. Later ones win
	// over earlier ones, spec.values over all of them, and the fields of the spec
	// that have a value of the chart of their own over everything. The objects are
	// watched: when the values change, the release follows.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// values are further values of the chart, a free form that the chart's schema
	// checks. See valuesFrom for what wins.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`

	// remediation says what to do about an install or upgrade that fails. Absent
	// means to try again with backoff for as long as it takes.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`

	// drift says what to do when somebody else changed objects of the release.
	// Absent means to correct it.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// maxHistory is how many revisions of the release are kept, 1 to 100. Defaults
	// to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// timeout bounds one operation on the release and, with waitForReady, the time
	// in which the workload is to become healthy; 1s to 24h. Defaults to 5m. An
	// operation takes at most 1h, whatever the timeout is.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be 1s to 24h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// waitForReady says that an install or upgrade has failed when its workload is
	// not healthy within timeout. Defaults to false: it succeeds when the API
	// server has taken the objects.
	// +optional
	WaitForReady bool `json:"waitForReady,omitempty"`
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
