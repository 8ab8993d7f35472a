// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"
	"testing/synctest"

	clienttesting "k8s.io/client-go/testing"

	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
)

func TestAssembleWatchesTheNamespaces(t *testing.T) {
	tests := []struct {
		name       string
		namespaces []string
		want       []string
		services   []string
	}{
		{name: "all", want: []string{""}, services: []string{"informers"}},
		{name: "some", namespaces: []string{"a", "b"}, want: []string{"a", "b"}, services: []string{"informers of a", "informers of b"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := demofake.NewClientset()
				built, err := assemble(dependencies{
					config:  Config{Options: Options{Namespaces: test.namespaces}},
					clients: &clients{demo: client},
					metrics: newMetrics(),
				})
				if err != nil {
					t.Fatal(err)
				}
				services := &serviceStack{fail: func(err error) { t.Error(err) }}
				services.start(t.Context(), built.services...)
				synctest.Wait()
				for _, s := range built.synced {
					if !s.HasSynced() {
						t.Errorf("%s has not synced", s.Name)
					}
				}
				services.stopAll(t.Context())
				checkLists(t, client.Actions(), test.want)
				var names []string
				for _, s := range built.services {
					names = append(names, s.name)
				}
				if !slices.Equal(names, test.services) {
					t.Errorf("services = %q, want %q", names, test.services)
				}
			})
		})
	}
}

// checkLists checks in which namespaces DemoApps were listed.
func checkLists(t *testing.T, actions []clienttesting.Action, want []string) {
	t.Helper()
	var got []string
	for _, action := range actions {
		if action.Matches("list", "demoapps") || action.Matches("watch", "demoapps") {
			got = append(got, action.GetNamespace())
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("DemoApps were read in %q, want %q", got, want)
	}
}
