// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InheritedLabels are the names of the labels that a child passes on to what the operator makes for
// it, with its pods, volume claims and Secrets. By these labels, users find the parts of an
// application: platform and component of an EcommercePlatform, and the labels of an AppStack.
var InheritedLabels = []string{"platform", "component", "app.example.com/stack", "app.example.com/component"}

// ChildrenStatus is what the operator knows of the children of an object.
type ChildrenStatus struct {
	// applied are the children as the operator last applied them, at most 64. After a
	// restart the operator compares them with the cluster and sends nothing if they agree.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Applied []AppliedChild `json:"applied,omitempty"`

	// lastCorrection is the last time that the operator restored children that other clients had
	// changed or deleted.
	// +optional
	LastCorrection *Correction `json:"lastCorrection,omitempty"`
}

// AppliedChild is a child as the operator last applied it.
type AppliedChild struct {
	// kind of the child.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name of the child, in the namespace of its owner.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid of the child.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UID string `json:"uid,omitempty"`

	// digest of the desired state, without the values of a Secret; empty for a child that
	// is created once and never changed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`

	// fingerprint of the fields that the operator owned after it applied the child.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`

	// template is the digest of the part that decides which pods run, such as the pod template of a
	// Deployment; empty for other children. It differs from the desired template while that waits.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Template string `json:"template,omitempty"`

	// owner is the version of the owner with which the template was last compared. Another version
	// applies the desired template, unless the change of the owner leaves it as it is.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Owner string `json:"owner,omitempty"`

	// awaited is the digest of the desired template while it waits for a change of the owner, or for its
	// turn in the rollout.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Awaited string `json:"awaited,omitempty"`

	// lessStrict means that the awaited template is less strict than the applied one, so that it waits for
	// a change of the owner.
	// +optional
	LessStrict bool `json:"lessStrict,omitempty"`

	// contested means that another client changes the child again after each correction, so that
	// corrections wait.
	// +optional
	Contested bool `json:"contested,omitempty"`

	// ended is the result of a child that runs to its end and is then deleted, such as a Job with
	// ttlSecondsAfterFinished. Its deletion is then no drift.
	// +kubebuilder:validation:Enum=Succeeded;Failed
	// +optional
	Ended string `json:"ended,omitempty"`
}

// Correction is the restoration of children that other clients changed or deleted.
type Correction struct {
	// time of the correction.
	// +required
	Time metav1.Time `json:"time"`

	// children that were restored, as kind/name, at most 8 of them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +required
	Children []ChildName `json:"children"`
}

// ChildName is the kind and the name of a child, as kind/name.
//
// +kubebuilder:validation:MaxLength=317
type ChildName string

// ComponentStatus is the state of a component: children of an owner that start together.
type ComponentStatus struct {
	// name of the component, such as database.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// ready is true while all children of the component are healthy.
	// +required
	Ready bool `json:"ready"`

	// reason is the reason for ready, in CamelCase.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what the component waits for, or what failed.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// endpoint is where the component is reached within the cluster, as host:port.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
}
