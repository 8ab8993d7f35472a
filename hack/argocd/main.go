// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command argocd prints a ConfigMap that gives the health check of artifacts/argocd/health.lua to
// Argo CD, for each kind of this repository. Server-side apply merges the ConfigMap into Argo
// CD's own.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const header = `# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Written by hack/argocd from health.lua, for each kind of this repository; do not edit it. Server-side apply keeps the
# other settings of Argo CD:
#
#   kubectl apply --server-side --field-manager=demoapp-controller-health -f artifacts/argocd/argocd-cm.yaml
#
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
  namespace: argocd
data:
`

func main() {
	if err := run(os.Stdout, "artifacts"); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

// run writes the ConfigMap for the CRDs and the script below the folder artifacts.
func run(w io.Writer, artifacts string) error {
	script, err := os.ReadFile(filepath.Join(artifacts, "argocd", "health.lua"))
	if err != nil {
		return err
	}
	kinds, err := groupKinds(artifacts)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(header)
	for _, kind := range kinds {
		fmt.Fprintf(&text, "  resource.customizations.health.%s: |\n", kind)
		for line := range strings.Lines(string(script)) {
			if line != "\n" {
				text.WriteString("    ")
			}
			text.WriteString(line)
		}
	}
	_, err = io.WriteString(w, text.String())
	return err
}

// groupKinds returns the kinds of all CRDs in the form of Argo CD's keys, <group>_<kind>, in order.
func groupKinds(artifacts string) ([]string, error) {
	var kinds []string
	for _, pattern := range []string{"crds/*_*.yaml", "kinds/*/crd.yaml"} {
		files, err := filepath.Glob(filepath.Join(artifacts, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			kind, err := groupKind(file)
			if err != nil {
				return nil, err
			}
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds, nil
}

func groupKind(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var crd struct {
		Spec struct {
			Group string
			Names struct{ Kind string }
		}
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if crd.Spec.Group == "" || crd.Spec.Names.Kind == "" {
		return "", fmt.Errorf("%s: the CRD has no group or no kind", file)
	}
	return crd.Spec.Group + "_" + crd.Spec.Names.Kind, nil
}
