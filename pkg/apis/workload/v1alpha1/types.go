// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources are the compute resources of a container, as in the Pod API.
type Resources struct {
	// requests are the resources that the scheduler reserves, such as cpu and memory.
	// +optional
	Requests ResourceList `json:"requests,omitempty"`

	// limits are the most that the container may use.
	// +optional
	Limits ResourceList `json:"limits,omitempty"`
}

// ResourceList has quantities by the name of the resource, at most 16.
//
// +kubebuilder:validation:MaxProperties=16
// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 253 && (type(self[name]) == int || self[name].size() <= 32))",message="names have at most 253 characters, and quantities at most 32"
// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(self[name]))",message="quantities must be numbers with an optional unit, such as 500m, 256Mi or 2Gi"
type ResourceList map[string]resource.Quantity

// SecurityContext is the part of a container's security context that may be set, with the
// meaning that it has in the Pod API.
type SecurityContext struct {
	// runAsUser is the user ID of the process.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the primary group ID of the process.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// runAsNonRoot keeps the container from starting as user 0.
	// +optional
	RunAsNonRoot *bool `json:"runAsNonRoot,omitempty"`

	// readOnlyRootFilesystem makes the root file system read-only.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`

	// allowPrivilegeEscalation lets a process gain more privileges than its parent.
	// +optional
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`

	// privileged gives the container the privileges of the node.
	// +optional
	Privileged *bool `json:"privileged,omitempty"`

	// capabilities are the Linux capabilities that are added and dropped.
	// +optional
	Capabilities *Capabilities `json:"capabilities,omitempty"`
}

// UserContext is the part of a container's security context that decides which user its processes have, with
// the meaning that it has in the Pod API.
type UserContext struct {
	// runAsUser is the user ID of the process.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the primary group ID of the process.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// runAsNonRoot keeps the container from starting as user 0.
	// +optional
	RunAsNonRoot *bool `json:"runAsNonRoot,omitempty"`
}

// Capabilities are Linux capabilities by name, such as NET_BIND_SERVICE.
type Capabilities struct {
	// add are the capabilities to add, at most 64.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Add []string `json:"add,omitempty"`

	// drop are the capabilities to drop, at most 64; ALL drops all.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Drop []string `json:"drop,omitempty"`
}
