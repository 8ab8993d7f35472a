// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ValuesKind is a kind of object that values of the chart are read from.
//
// +kubebuilder:validation:Enum=ConfigMap;Secret
type ValuesKind string

// The kinds of objects that values are read from.
const (
	// ValuesFromConfigMap reads values from a ConfigMap.
	ValuesFromConfigMap ValuesKind = "ConfigMap"
	// ValuesFromSecret reads values from a Secret. These values never appear in status,
	// events, logs or audit records.
	ValuesFromSecret ValuesKind = "Secret"
)

// DefaultValuesKey is the default key of a reference in valuesFrom.
const DefaultValuesKey = "values.yaml"

// ValuesReference names a key of a ConfigMap or Secret with values of the chart. The
// object is in the namespace of the object that names it.
type ValuesReference struct {
	// kind is ConfigMap or Secret.
	// +required
	Kind ValuesKind `json:"kind"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ConfigMap or Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +required
	Name string `json:"name"`

	// key is the key in the object's data that holds the values, as a YAML or JSON
	// object. Defaults to values.yaml.
	// +kubebuilder:default=values.yaml
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a ConfigMap or Secret: letters, digits, '-', '_' and '.'"
	// +optional
	Key string `json:"key,omitempty"`

	// optional says that the object or the key may be absent. Defaults to false: the
	// operator waits for the values.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// SecretKeyReference names one key of a Secret in the namespace of the object that refers
// to it.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +required
	Name string `json:"name"`

	// key is the key within the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of the Secret: letters, digits, '-', '_' and '.'"
	// +required
	Key string `json:"key"`
}

// DependencyReference names an object that has the condition Ready or Deployed.
type DependencyReference struct {
	// apiVersion is the API version of the object, such as database.example.com/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the object. Defaults to the namespace of the object that waits.
	// Another namespace must be in the list of the operator's flag --shared-dependencies.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
