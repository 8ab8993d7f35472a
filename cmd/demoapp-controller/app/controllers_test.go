// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/controller/audit"
	"github.com/example/demoapp-controller/pkg/controller/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/demoappcluster"
)

func TestAssemble(t *testing.T) {
	tests := []struct {
		name       string
		namespaces []string
		services   []string
	}{
		{
			name: "all namespaces",
			services: []string{
				"informer of DemoApps", "informer of Secrets", "informer of ConfigMaps",
				"informer of IngressClasses", "informer of CustomResourceDefinition httproutes.gateway.networking.k8s.io",
				"informer of audit records in demoapp-audit",
				"informer of DemoAppClusters", "informer of Nodes", "helm engine",
			},
		},
		{
			name:       "some namespaces",
			namespaces: []string{"a", "b"},
			services: []string{
				"informer of DemoApps in a", "informer of DemoApps in b",
				"informer of Secrets in a", "informer of ConfigMaps in a",
				"informer of Secrets in b", "informer of ConfigMaps in b",
				"informer of IngressClasses", "informer of CustomResourceDefinition httproutes.gateway.networking.k8s.io",
				"informer of audit records in demoapp-audit",
				"informer of DemoAppClusters in a", "informer of DemoAppClusters in b",
				"informer of Nodes",
				"helm engine",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clients, err := newClients(&rest.Config{Host: "http://127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			config, err := parse(t).Config(Environment{})
			if err != nil {
				t.Fatal(err)
			}
			config.Namespaces = test.namespaces
			built, err := assemble(dependencies{config: config, clients: clients, metrics: newMetrics()})
			if err != nil {
				t.Fatal(err)
			}
			var services, controllers []string
			for _, s := range built.services {
				services = append(services, s.name)
			}
			for _, c := range built.controllers {
				controllers = append(controllers, c.Name)
			}
			if diff := cmp.Diff(test.services, services); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{demoapp.Name, audit.Name, demoappcluster.Name}, controllers); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
			if len(built.synced) == 0 {
				t.Error("nothing has to be synced before the process is ready")
			}
			for _, s := range built.synced {
				if s.HasSynced() {
					t.Errorf("%s is synced before its informer runs", s.Name)
				}
			}
		})
	}
}

func TestServedOnly(t *testing.T) {
	whole := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{
				"name": "webs.example.com", "uid": "1", "resourceVersion": "2", "deletionTimestamp": "2026-01-02T03:04:05Z",
				"annotations": map[string]any{"long": "text"},
			},
			"spec": map[string]any{
				"group":    "example.com",
				"versions": []any{map[string]any{"name": "v1", "served": true, "schema": map[string]any{"large": "very"}}},
			},
			"status": status,
		}}
	}
	conditions := map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	kept := func(status map[string]any) *unstructured.Unstructured {
		object := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "webs.example.com", "uid": "1", "resourceVersion": "2", "deletionTimestamp": "2026-01-02T03:04:05Z"},
			"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1", "served": true}}},
		}
		if status != nil {
			object["status"] = status
		}
		return &unstructured.Unstructured{Object: object}
	}
	tests := []struct {
		name         string
		object, want any
	}{
		{"whole", whole(map[string]any{"conditions": conditions["conditions"], "acceptedNames": map[string]any{}}), kept(conditions)},
		{"just made", whole(map[string]any{}), kept(nil)},
		{"slim already", kept(conditions), kept(conditions)},
		{"a tombstone", "gone", "gone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := servedOnly(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
