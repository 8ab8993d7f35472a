// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Cache is a Redis-compatible cache. The schema of crd.yaml has the limits of its fields.
type Cache struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   CacheSpec   `json:"spec"`
	Status CacheStatus `json:"status,omitzero"`
}

// CacheSpec is the desired state of a Cache.
type CacheSpec struct {
	// ReleasePolicy has suspend, upgradeWindow, remediation and drift, among others.
	releasev1alpha1.ReleasePolicy `json:",inline"`

	// Size is the number of pods, and Version the version of Valkey.
	Size    int64  `json:"size"`
	Version string `json:"version"`
	// PasswordFrom names the key of a Secret that has the password of clients.
	PasswordFrom releasev1alpha1.SecretKeyReference `json:"passwordFrom"`
	// WaitFor names objects that must be ready before a change of the Cache.
	WaitFor []releasev1alpha1.DependencyReference `json:"waitFor,omitempty"`
}

// CacheStatus is the observed state of a Cache.
type CacheStatus struct {
	// ReleaseStatus has the conditions and readyReplicas, among others.
	releasev1alpha1.ReleaseStatus `json:",inline"`

	// Endpoint is the address for clients inside the cluster.
	Endpoint string `json:"endpoint,omitempty"`
}

// DeepCopy returns a copy of a Cache.
func (c *Cache) DeepCopy() *Cache {
	copied := *c
	c.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	c.Spec.ReleasePolicy.DeepCopyInto(&copied.Spec.ReleasePolicy)
	copied.Spec.WaitFor = slices.Clone(c.Spec.WaitFor)
	c.Status.ReleaseStatus.DeepCopyInto(&copied.Status.ReleaseStatus)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (c *Cache) DeepCopyObject() runtime.Object { return c.DeepCopy() }
