// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

const (
	chartFolder = "pkg/helm/charts/demo-app"
	// newerVersion is the chart version of the newer operator.
	newerVersion = "99.0.0"
	// newerObject is an object that only the newer chart has.
	newerObject = `
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ printf "%s-notes" .Release.Name | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    {{- include "demo-app.labels" . | nindent 4 }}
data:
  chart: {{ .Chart.Version | quote }}
`
)

var versionLine = regexp.MustCompile(`(?m)^version: .*$`)

// buildNewer builds an operator from the same source with a newer chart, and returns the path of its binary in dir.
func buildNewer(ctx context.Context, scr *screen, dir string) (binary string, err error) {
	overlay, err := newerChart(chartFolder, dir)
	if err != nil {
		return "", fmt.Errorf("write a newer chart: %w", err)
	}
	binary = filepath.Join(dir, "newer-"+filepath.Base(operatorBinary))
	// The flags are those of "make build", so that most packages are in the build cache.
	command := fmt.Sprintf("CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -overlay %s -o %s ./%s", overlay, binary, operatorSource)
	scr.info("A newer operator, with a newer chart:")
	scr.command(command)
	begin := time.Now()
	output, err := posixShell{env: os.Environ()}.run(ctx, command)
	scr.output(output)
	scr.took(time.Since(begin))
	if err != nil {
		return "", fmt.Errorf("build the newer operator: %w", err)
	}
	return binary, nil
}

// newerChart writes changed copies of files of the chart to dir. It returns an overlay file for "go build", which
// replaces the files in folder by the copies.
func newerChart(folder, dir string) (overlay string, err error) {
	replaced := map[string]string{}
	for file, change := range map[string]func(content []byte) []byte{
		"Chart.yaml": func(content []byte) []byte {
			return versionLine.ReplaceAll(content, []byte("version: "+newerVersion))
		},
		"templates/configmap.yaml": func(content []byte) []byte { return append(content, newerObject...) },
	} {
		from, err := filepath.Abs(filepath.Join(folder, file))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", file, err)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("read the chart: %w", err)
		}
		replaced[from] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replaced[from], change(content), 0o600); err != nil {
			return "", fmt.Errorf("write the chart: %w", err)
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}
