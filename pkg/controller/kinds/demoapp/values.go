// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"cmp"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/images"
)

// The defaults of the API, for objects that were stored before a field had a default.
const (
	defaultReplicas = 1
	defaultImage    = images.NGINX
	defaultMessage  = "Hello from the hybrid operator"
	defaultPort     = 80
)

// desiredValues returns the chart's values for a spec. It sets all of them, so that the
// chart's own defaults never apply.
func desiredValues(spec v1alpha1.DemoAppSpec, pull images.Table, apiKey string, found exposure) map[string]any {
	return map[string]any{
		"replicaCount": orDefault(spec.ReplicaCount, defaultReplicas),
		"image":        imageOf(spec, pull),
		"message":      cmp.Or(spec.Message, defaultMessage),
		"apiKey":       apiKey,
		"service": map[string]any{
			"type": string(cmp.Or(spec.Service.Type, v1alpha1.ServiceTypeClusterIP)),
			"port": int64(cmp.Or(spec.Service.Port, defaultPort)),
			// 0 lets the cluster choose, and also stands for no node port.
			"nodePort": nodePort(spec),
		},
		"nodeName":  spec.NodeName,
		"ingress":   ingressValues(spec.Ingress, found),
		"httpRoute": httpRouteValues(spec.Ingress, found),
	}
}

// FieldValues returns the values that the fields of a spec give to the chart. ingress and httpRoute
// say which objects of spec.ingress the cluster supports, and pull where the default image is
// pulled from.
func FieldValues(spec v1alpha1.DemoAppSpec, pull images.Table, apiKey string, ingress, httpRoute bool) map[string]any {
	return desiredValues(spec, pull, apiKey, exposure{known: true, ingress: ingress, httpRoute: httpRoute})
}

// imageOf is the image of the pods of a spec.
func imageOf(spec v1alpha1.DemoAppSpec, pull images.Table) string {
	return pull.Of(cmp.Or(spec.Image, defaultImage))
}

// nodePort is the node port that a spec requests; 0 for none.
func nodePort(spec v1alpha1.DemoAppSpec) int64 {
	if !hasNodePort(spec) {
		return 0
	}
	return int64(spec.Service.NodePort)
}

// hasNodePort reports whether the Service has a node port, requested or not.
func hasNodePort(spec v1alpha1.DemoAppSpec) bool {
	return cmp.Or(spec.Service.Type, v1alpha1.ServiceTypeClusterIP) != v1alpha1.ServiceTypeClusterIP
}

func orDefault(value *int32, fallback int64) int64 {
	if value == nil {
		return fallback
	}
	return int64(*value)
}
