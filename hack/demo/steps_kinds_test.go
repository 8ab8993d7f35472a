// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTourShowsEveryKind asserts that the tour opts in to each kind of artifacts/kinds, and applies its example later.
// The clean-up removes what is in optInKinds.
func TestTourShowsEveryKind(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("..", "..", "artifacts", "kinds"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, s := range tour(fakeOperator{}, fakeLicenses{}, clusterFeatures{}) {
		for _, a := range s.acts {
			commands = append(commands, a.command)
		}
	}

	var kinds []optInKind
	for _, folder := range folders {
		kind := optInKind(folder.Name())
		kinds = append(kinds, kind)
		optedIn := slices.Index(commands, "kubectl apply -f "+kind.file("crd")+" -f "+kind.file("rbac"))
		applied := slices.Index(commands, in("apply -f "+kind.file("example")))
		if optedIn < 0 || applied < optedIn {
			t.Errorf("%s: opted in by command %d, example applied by command %d", kind, optedIn, applied)
		}
	}
	if diff := cmp.Diff(kinds, slices.Sorted(slices.Values(optInKinds))); diff != "" {
		t.Errorf("kinds of the tour (-artifacts/kinds +optInKinds):\n%s", diff)
	}
}

func TestHasSimulatedNodes(t *testing.T) {
	const (
		askKubelets = "kubectl get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'"
		askClasses  = "kubectl get storageclasses -o jsonpath=" +
			`'{.items[?(@.metadata.annotations.storageclass\.kubernetes\.io/is-default-class=="true")].metadata.name}'`
	)
	refused := errors.New("exit status 1")
	tests := map[string]struct {
		answers map[string]answer
		want    bool
		wantErr string
	}{
		"simulated nodes": {answers: map[string]answer{askKubelets: {output: "kwok kwok"}}, want: true},
		"real nodes": {
			answers: map[string]answer{askKubelets: {output: "v1.35.0 v1.35.0"}, askClasses: {output: "standard"}},
		},
		"a real node among simulated ones": {
			answers: map[string]answer{askKubelets: {output: "kwok v1.35.0"}, askClasses: {output: "standard"}},
		},
		"real nodes without a default StorageClass": {
			answers: map[string]answer{askKubelets: {output: "v1.35.0"}},
			wantErr: "this cluster has no default StorageClass, which the databases of the tour need; " +
				"make a StorageClass the default, or take another cluster",
		},
		"a cluster without nodes": {answers: map[string]answer{askClasses: {output: "standard"}}},
		"a cluster that refuses to list nodes": {
			answers: map[string]answer{askKubelets: {output: "refused\n", err: refused}},
			wantErr: "look for simulated nodes: refused: exit status 1",
		},
		"a cluster that refuses to list StorageClasses": {
			answers: map[string]answer{askClasses: {output: "refused\n", err: refused}},
			wantErr: "look for a default StorageClass: refused: exit status 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := hasSimulatedNodes(t.Context(), &fakeShell{answers: test.answers})

			if got != test.want || message(err) != test.wantErr {
				t.Errorf("%t, error %q; want %t, %q", got, message(err), test.want, test.wantErr)
			}
		})
	}
}

// TestSimulatedKubelet asserts that hack/localcluster creates the nodes that the tour recognizes.
func TestSimulatedKubelet(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "localcluster", "client.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), `"kubeletVersion": "`+simulatedKubelet+`"`) {
		t.Errorf("hack/localcluster creates no nodes with the kubelet version %q", simulatedKubelet)
	}
}

// TestVolumesAreCreatedOnSimulatedNodesOnly asserts that the tour uses no folder of a real node.
func TestVolumesAreCreatedOnSimulatedNodesOnly(t *testing.T) {
	for _, simulatedNodes := range []bool{true, false} {
		creates := slices.ContainsFunc(tour(fakeOperator{}, fakeLicenses{}, clusterFeatures{simulatedNodes: simulatedNodes}),
			func(s step) bool {
				return slices.ContainsFunc(s.acts, func(a act) bool { return strings.Contains(a.command, "PersistentVolume") })
			})
		if creates != simulatedNodes {
			t.Errorf("simulated nodes: %t; creates volumes: %t", simulatedNodes, creates)
		}
	}
}
