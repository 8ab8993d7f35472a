// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// The marks by which Helm knows the objects of a release and its hooks.
const (
	ManagedByLabel             = ssa.ManagedByLabel
	ManagedByHelm              = "Helm"
	ReleaseNameAnnotation      = "meta.helm.sh/release-name"
	ReleaseNamespaceAnnotation = "meta.helm.sh/release-namespace"
	ResourcePolicyAnnotation   = "helm.sh/resource-policy"
	HookAnnotation             = "helm.sh/hook"
)

// FieldManager is the field manager of the engine's applies. The helm command uses the same field
// manager, so both share the ownership of fields.
const FieldManager = "helm"

// HandoverManager is the field manager that keeps the replicas that a chart no longer sets.
const HandoverManager = "helm-handover"

// IsKept reports whether an object outlives its release.
func IsKept(object metav1.Object) bool {
	return object.GetAnnotations()[ResourcePolicyAnnotation] == "keep"
}

// Claim marks an object as part of a release, as Helm's actions do. It does not change the maps of the
// object.
func Claim(object metav1.Object, namespace, release string) {
	object.SetLabels(with(object.GetLabels(), ManagedByLabel, ManagedByHelm))
	object.SetAnnotations(with(with(object.GetAnnotations(), ReleaseNameAnnotation, release), ReleaseNamespaceAnnotation, namespace))
}

// with returns a copy of a map with another entry.
func with(entries map[string]string, key, value string) map[string]string {
	entries = maps.Clone(entries)
	if entries == nil {
		entries = map[string]string{}
	}
	entries[key] = value
	return entries
}
