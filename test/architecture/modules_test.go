// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestModulesBeyondHelm holds the modules that the operator links and the helm command does not.
// Everyone who forks the project has to review them.
func TestModulesBeyondHelm(t *testing.T) {
	helm := linkedModules(t, "helm.sh/helm/v4/cmd/helm")
	var beyond []string
	for _, linked := range linkedModules(t, "./cmd/demoapp-controller") {
		if !slices.Contains(helm, linked) && linked != module {
			beyond = append(beyond, linked)
		}
	}

	want := []string{"github.com/distribution/reference", "github.com/robfig/cron/v3"}
	if !slices.Equal(beyond, want) {
		t.Errorf("the operator links %v beyond the modules of the helm command, expected %v", beyond, want)
	}
}

// linkedModules returns the modules of a program, sorted. A package of Helm's command that no
// package of ours needs is not downloaded, and its module is omitted.
func linkedModules(t *testing.T, program string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", program)
	command.Dir = root
	listed, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	modules := strings.Fields(string(listed))
	slices.Sort(modules)
	return slices.Compact(modules)
}
