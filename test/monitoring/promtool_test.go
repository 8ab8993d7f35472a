// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAlerts runs promtool on the rules: the lint, and the test of each alert in testdata/alerts.
func TestAlerts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	promtool := buildPromtool(t, dir)
	rules, _, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(alertTests)); err != nil {
		t.Fatal(err)
	}
	t.Run("lint", func(t *testing.T) {
		t.Parallel()
		run(t, dir, promtool, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	})
	for _, name := range fileNames(t, alertTests) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, dir, promtool, "test", "rules", name)
		})
	}
}

// buildPromtool builds promtool without the clients of the clouds, which only its service discovery
// needs.
func buildPromtool(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "promtool")
	run(t, ".", "go", "build", "-ldflags=-s -w", "-tags", "remove_all_sd", "-o", binary, "github.com/prometheus/prometheus/cmd/promtool")
	return binary
}

// run fails the test with the output of a command that fails.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, output)
	}
}
