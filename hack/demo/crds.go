// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// crdNames returns the names of the CRDs in the files of a folder, such as demoapps.demo.example.com.
func crdNames(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %s", folder)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		name, err := crdName(file)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// crdName returns the name of the CRD in a file.
func crdName(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read CRD: %w", err)
	}
	var crd struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return "", fmt.Errorf("read CRD %s: %w", file, err)
	}
	if crd.Kind != "CustomResourceDefinition" || crd.Metadata.Name == "" {
		return "", fmt.Errorf("read CRD %s: the file has a %s %q", file, crd.Kind, crd.Metadata.Name)
	}
	return crd.Metadata.Name, nil
}
