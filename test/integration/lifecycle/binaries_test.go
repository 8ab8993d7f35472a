// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// newerVersion is the chart version of the newer operator.
const newerVersion = "99.0.0"

// builds is the folder of the binaries that tests build. TestMain makes and removes it.
var builds string

// newerBinary is the operator with a newer version of the chart, built once.
var newerBinary = sync.OnceValues(func() (string, error) {
	chart := filepath.Join(shared.Root(), "pkg", "helm", "charts", "demo-app")
	replaced := map[string]string{}
	for file, change := range map[string]func(content string) string{
		"Chart.yaml": func(content string) string {
			return regexp.MustCompile(`(?m)^version: .*$`).ReplaceAllString(content, "version: "+newerVersion)
		},
		filepath.Join("templates", "deployment.yaml"): func(content string) string {
			return strings.Replace(content, ".Values.image ", `(ternary "registry.invalid/slow:1" .Values.image (hasPrefix "slow" .Release.Name)) `, 1)
		},
	} {
		content, err := os.ReadFile(filepath.Join(chart, file))
		if err != nil {
			return "", err
		}
		changed := filepath.Join(builds, filepath.Base(file))
		if err := os.WriteFile(changed, []byte(change(string(content))), 0o600); err != nil {
			return "", err
		}
		replaced[filepath.Join(chart, file)] = changed
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(builds, "overlay.json")
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", err
	}
	return build("newer", "./cmd/demoapp-controller", "-overlay="+overlay)
})

// newerOperator returns the binary of an operator with another version of the chart. The pods of
// DemoApps whose names begin with "slow" do not start.
func newerOperator(t *testing.T) string {
	t.Helper()
	binary, err := newerBinary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func build(name, pkg string, flags ...string) (string, error) {
	binary := filepath.Join(builds, name)
	cmd := exec.CommandContext(context.Background(), "go", append(append([]string{"build", "-ldflags=-s -w", "-o", binary}, flags...), pkg)...)
	cmd.Dir = shared.Root()
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	return binary, nil
}
