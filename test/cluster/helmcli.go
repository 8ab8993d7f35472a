// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/example/demoapp-controller/test/repository"
)

// BuildHelm builds the helm command in the version of go.mod, and returns its path in dir. It has
// our versions of all modules, so that the modules that it shares with the operator are compiled
// once. A copy of go.mod gets the modules that only the command needs.
func BuildHelm(ctx context.Context, dir string) (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	modules, err := os.MkdirTemp(dir, "helm-modules-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(modules, name), content, 0o600); err != nil { //nolint:gosec // The folder is the caller's.
			return "", err
		}
	}
	binary := filepath.Join(dir, "helm")
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-modfile="+filepath.Join(modules, "go.mod"),
		"-ldflags=-s -w", "-o", binary, "helm.sh/helm/v4/cmd/helm")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, output)
	}
	return binary, nil
}
