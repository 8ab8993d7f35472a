// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

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
				"informer of DemoApps", "informer of Secrets", "informer of ConfigMaps", "informer of DemoAppClusters", "helm engine",
			},
		},
		{
			name:       "some namespaces",
			namespaces: []string{"a", "b"},
			services: []string{
				"informer of DemoApps in a", "informer of DemoApps in b",
				"informer of Secrets in a", "informer of ConfigMaps in a",
				"informer of Secrets in b", "informer of ConfigMaps in b",
				"informer of DemoAppClusters in a", "informer of DemoAppClusters in b",
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
			if diff := cmp.Diff([]string{demoapp.Name, demoappcluster.Name}, controllers); diff != "" {
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
