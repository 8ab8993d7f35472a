// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	_ "embed"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
)

// ServiceMonitor is the kind by which Prometheus Operator finds metrics. An API server may not
// serve it.
var ServiceMonitor = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}

// dashboard is a Grafana dashboard. NAMESPACE and APPLICATION are placeholders of names.
//
//go:embed dashboard.json
var dashboard string

// Monitoring returns a ServiceMonitor of the backend, which serves metrics at /metrics, and a
// ConfigMap with a dashboard, which the sidecar of Grafana finds by its label. Names need no
// quotes in the dashboard, because they are DNS labels.
func (a Application) Monitoring() component.Component {
	n := a.named(Monitoring, "")
	labels := n.PodLabels()
	labels["grafana_dashboard"] = "1"
	text := strings.NewReplacer("NAMESPACE", a.Namespace, "APPLICATION", a.Name).Replace(dashboard)
	return component.Component{
		Name: Monitoring, Field: "spec.monitoring", After: []string{Database, Cache, Backend, Frontend},
		Children: []child.Desired{
			child.Untyped{
				"apiVersion": ServiceMonitor.GroupVersion().String(), "kind": ServiceMonitor.Kind,
				"metadata": map[string]any{"name": n.Name, "labels": untyped(n.PodLabels())},
				"spec": map[string]any{
					"selector":  map[string]any{"matchLabels": untyped(a.Labels(Backend))},
					"endpoints": []any{map[string]any{"port": portName, "path": "/metrics"}},
				},
			},
			corev1ac.ConfigMap(n.Name+"-dashboard", "").WithLabels(labels).WithData(map[string]string{n.Name + ".json": text}),
		},
	}
}

func untyped(labels map[string]string) map[string]any {
	converted := make(map[string]any, len(labels))
	for key, value := range labels {
		converted[key] = value
	}
	return converted
}
