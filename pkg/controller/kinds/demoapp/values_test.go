// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/test/expect"
)

// The chart's values for a spec without ingress.
var (
	noIngress = map[string]any{
		"enabled": false, "host": "", "className": "", "tls": map[string]any{"enabled": false, "secretName": ""},
	}
	noHTTPRoute = map[string]any{"enabled": false, "host": "", "gateway": map[string]any{"name": "", "namespace": ""}}
)

func TestDesiredValues(t *testing.T) {
	zero, three := int32(0), int32(3)
	tests := []struct {
		name   string
		spec   v1alpha1.DemoAppSpec
		apiKey string
		want   map[string]any
	}{
		{
			"nothing set",
			v1alpha1.DemoAppSpec{},
			"key",
			map[string]any{
				"replicaCount": int64(1), "image": "nginx:1.27-alpine", "message": "Hello from the hybrid operator", "apiKey": "key",
				"service": map[string]any{"type": "ClusterIP", "port": int64(80), "nodePort": int64(0)}, "nodeName": "",
				"ingress": noIngress, "httpRoute": noHTTPRoute,
			},
		},
		{
			"all set",
			v1alpha1.DemoAppSpec{
				ReplicaCount: &three, Image: "httpd:2", Message: "<b>hi</b>", APIKey: "not this one", WaitFor: "b",
				Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeNodePort, Port: 8080, NodePort: 30080}, NodeName: "node-1",
			},
			"key",
			map[string]any{
				"replicaCount": int64(3), "image": "httpd:2", "message": "<b>hi</b>", "apiKey": "key",
				"service": map[string]any{"type": "NodePort", "port": int64(8080), "nodePort": int64(30080)}, "nodeName": "node-1",
				"ingress": noIngress, "httpRoute": noHTTPRoute,
			},
		},
		{
			"node port that the type does not allow",
			v1alpha1.DemoAppSpec{Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceTypeClusterIP, NodePort: 30080}},
			"key",
			map[string]any{
				"replicaCount": int64(1), "image": "nginx:1.27-alpine", "message": "Hello from the hybrid operator", "apiKey": "key",
				"service": map[string]any{"type": "ClusterIP", "port": int64(80), "nodePort": int64(0)}, "nodeName": "",
				"ingress": noIngress, "httpRoute": noHTTPRoute,
			},
		},
		{
			"scaled to zero",
			v1alpha1.DemoAppSpec{ReplicaCount: &zero},
			"key",
			map[string]any{
				"replicaCount": int64(0), "image": "nginx:1.27-alpine", "message": "Hello from the hybrid operator", "apiKey": "key",
				"service": map[string]any{"type": "ClusterIP", "port": int64(80), "nodePort": int64(0)}, "nodeName": "",
				"ingress": noIngress, "httpRoute": noHTTPRoute,
			},
		},
		{
			"ingress that the cluster partly supports",
			v1alpha1.DemoAppSpec{Ingress: &v1alpha1.IngressSpec{
				Host: "web.example.com", ClassName: "nginx", TLS: &v1alpha1.IngressTLS{SecretName: "cert"},
				Gateway: &v1alpha1.GatewayReference{Name: "public", Namespace: "infra"},
			}},
			"key",
			map[string]any{
				"replicaCount": int64(1), "image": "nginx:1.27-alpine", "message": "Hello from the hybrid operator", "apiKey": "key",
				"service": map[string]any{"type": "ClusterIP", "port": int64(80), "nodePort": int64(0)}, "nodeName": "",
				"ingress": map[string]any{
					"enabled": true, "host": "web.example.com", "className": "nginx",
					"tls": map[string]any{"enabled": true, "secretName": "cert"},
				},
				"httpRoute": map[string]any{
					"enabled": false, "host": "web.example.com", "gateway": map[string]any{"name": "public", "namespace": "infra"},
				},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "values", test.want, desiredValues(test.spec, images.Table{}, test.apiKey, exposure{ingress: test.spec.Ingress != nil}))
		})
	}
}
