// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildHelm builds the helm command in the version of go.mod, and returns its path in dir. Helm's own
// go.mod determines the other versions, because ours lacks what only the command needs.
func BuildHelm(ctx context.Context, dir string) (string, error) {
	const module = "helm.sh/helm/v4"
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find out the version of helm: %w", err)
	}
	install := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", module+"/cmd/helm@"+strings.TrimSpace(string(version)))
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if output, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, output)
	}
	return filepath.Join(dir, "helm"), nil
}
