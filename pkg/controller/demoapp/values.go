// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// The defaults of the API, for objects that were stored before a field had one.
const (
	defaultReplicas = 1
	defaultImage    = "nginx:1.27-alpine"
	defaultMessage  = "Hello from the hybrid operator"
	defaultPort     = 80
)

// desiredValues are the chart's values for a spec. All of them are set, so that
// a chart's own defaults never show through.
func desiredValues(spec v1alpha1.DemoAppSpec, apiKey string, found exposure) map[string]any {
	return map[string]any{
		"replicaCount": orDefault(spec.ReplicaCount, defaultReplicas),
		"image":        imageOf(spec),
		"message":      orElse(spec.Message, defaultMessage),
		"apiKey":       apiKey,
		"service": map[string]any{
			"type": string(orElse(spec.Service.Type, v1alpha1.ServiceTypeClusterIP)),
			"port": int64(orElse(spec.Service.Port, defaultPort)),
			// 0 lets the cluster choose. Without a port on the nodes there is none to choose.
			"nodePort": nodePort(spec),
		},
		"nodeName":  spec.NodeName,
		"ingress":   ingressValues(spec.Ingress, found),
		"httpRoute": httpRouteValues(spec.Ingress, found),
	}
}

// imageOf is the image that a spec asks for.
func imageOf(spec v1alpha1.DemoAppSpec) string { return orElse(spec.Image, defaultImage) }

// nodePort is the port on every node that a spec asks for; 0 for none.
func nodePort(spec v1alpha1.DemoAppSpec) int64 {
	if !hasNodePort(spec) {
		return 0
	}
	return int64(spec.Service.NodePort)
}

// hasNodePort reports whether the Service has a port on every node, asked for or not.
func hasNodePort(spec v1alpha1.DemoAppSpec) bool {
	return orElse(spec.Service.Type, v1alpha1.ServiceTypeClusterIP) != v1alpha1.ServiceTypeClusterIP
}

func orDefault(value *int32, fallback int64) int64 {
	if value == nil {
		return fallback
	}
	return int64(*value)
}

func orElse[T comparable](value, fallback T) T {
	var none T
	if value == none {
		return fallback
	}
	return value
}

// ownerReference makes the app the controller of its release's objects, so that
// ownership is visible. It does not block the deletion of the app, which would
// take permission on its finalizers where that is enforced.
func ownerReference(app *v1alpha1.DemoApp) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(),
		Kind:       "DemoApp",
		Name:       app.Name,
		UID:        app.UID,
		Controller: &isController,
	}
}
