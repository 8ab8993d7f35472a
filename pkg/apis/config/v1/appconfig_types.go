// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
)

const (
	// LabelReload is the label of workloads that do not roll when a configuration that they use changes,
	// with the value "false".
	LabelReload = "config.example.com/reload"
	// LabelAppConfig is the label of the ConfigMap. Its value is the name of the AppConfig.
	LabelAppConfig = "config.example.com/appconfig"
	// AnnotationHash begins the annotation of the pod template of a workload that was rolled. The name of the
	// application follows. The value is the hash of the configuration for which the workload was
	// rolled.
	AnnotationHash = "config.example.com/hash-"
)

// ConditionRendered says whether the templates of the newest spec were rendered.
const ConditionRendered = "Rendered"

// Reasons of the condition Rendered.
const (
	// ReasonRendered: all templates were rendered.
	ReasonRendered = "Rendered"
	// ReasonRenderFailed: values or a template are invalid. The ConfigMap keeps its content.
	ReasonRenderFailed = "RenderFailed"
)

// ConditionReloaded says whether the pods of the workloads that were rolled for the newest content have
// it. Ready is not True before it.
const ConditionReloaded = "Reloaded"

// Reasons of the condition Reloaded. Ready has the last two, too, and Progressing while pods are replaced.
const (
	// ReasonReloaded: all workloads that were rolled for the content have it, or none had to be rolled. An
	// event with this reason names workloads that were rolled.
	ReasonReloaded = "Reloaded"
	// ReasonReloading: pods of workloads are being replaced.
	ReasonReloading = "Reloading"
	// ReasonWorkloadFailed: a workload does not become healthy with the content.
	ReasonWorkloadFailed = "WorkloadFailed"
	// ReasonReloadFailed: a workload could not be rolled. The operator tries again.
	ReasonReloadFailed = "ReloadFailed"
)

// Values of AppConfigSpec.Environment.
const (
	EnvironmentDev     = "dev"
	EnvironmentStaging = "staging"
	EnvironmentProd    = "prod"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=appconfigs,singular=appconfig,scope=Namespaced,shortName=ac,categories=all;config;demoapp-controller
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.application`,description="Application that the configuration is for."
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`,description="dev, staging or prod."
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.status.configHash`,description="Hash of the rendered configuration."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether the ConfigMap is as desired, and the workloads that use it have its content."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the AppConfig was created."
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1035 label of at most 63 characters (lower-case letters, digits and '-', beginning with a letter, ending with a letter or digit): labels hold it",fieldPath=".metadata"

// AppConfig renders the configuration of an application for one environment into a ConfigMap.
type AppConfig struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name is a DNS-1035 label of at most 63
	// characters: labels hold it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AppConfigSpec `json:"spec"`

	// status is the observed state. The operator alone writes it.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status AppConfigStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// AppConfigList is a list of AppConfigs.
type AppConfigList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AppConfigs.
	Items []AppConfig `json:"items"`
}

// AppConfigSpec is the desired state of an AppConfig.
type AppConfigSpec struct {
	// application is the name of the application. The ConfigMap is named
	// <application>-config.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=56
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label, such as shop: lower-case letters, digits and '-', beginning and ending with a letter or digit"
	// +required
	Application string `json:"application"`

	// environment is dev, staging or prod.
	// +kubebuilder:validation:Enum=dev;staging;prod
	// +required
	Environment string `json:"environment"`

	// config has the keys of the ConfigMap, at most 128, and a Go template for each, of at most
	// 65,536 characters. Templates know .Environment, .Application, .Namespace and .Values.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="keys consist of at most 253 letters, digits, '-', '_' and '.'"
	// +required
	Config map[string]Template `json:"config"`

	// values are the values of the templates, at most 256 KiB. A null removes a value.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`

	// environments override values, for one environment each.
	// +optional
	Environments Environments `json:"environments,omitzero"`
}

// Template is a Go template of at most 65,536 characters.
//
// +kubebuilder:validation:MaxLength=65536
type Template string

// Environments override values, for one environment each, with at most 256 KiB. Objects are
// merged; all other values are replaced.
type Environments struct {
	// dev overrides values in the environment dev.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Dev *runtime.RawExtension `json:"dev,omitempty"`

	// staging overrides values in the environment staging.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Staging *runtime.RawExtension `json:"staging,omitempty"`

	// prod overrides values in the environment prod.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Prod *runtime.RawExtension `json:"prod,omitempty"`
}

// AppConfigStatus is the observed state of an AppConfig.
type AppConfigStatus struct {
	// conditions are Ready, Reconciling and Stalled, as in the kstatus contract, Rendered and Reloaded.
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

	// configHash is the hash of the rendered configuration in the ConfigMap.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ConfigHash string `json:"configHash,omitempty"`

	// lastChangeTime is the time of the last change of the content of the ConfigMap. It is
	// absent for the first content.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`

	// reloaded are the workloads that were rolled for configHash, as kind/name, sorted, at most
	// 100.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=317
	// +optional
	Reloaded []string `json:"reloaded,omitempty"`

	// reloadedByLabel is the configHash of a content that an operator of an earlier version rendered. For this
	// content, only workloads with the label config.example.com/reload "true" are rolled.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ReloadedByLabel string `json:"reloadedByLabel,omitempty"`

	// children is what the operator knows of the children.
	// +optional
	Children childv1alpha1.ChildrenStatus `json:"children,omitzero"`
}
