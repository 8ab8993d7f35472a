// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCRDNames(t *testing.T) {
	names, err := crdNames(filepath.Join("..", "..", crdFiles))
	if err != nil || !slices.Contains(names, "demoapps.demo.example.com") {
		t.Errorf("got %q and error %v", names, err)
	}
}

func TestCRDNamesRefusesOtherFiles(t *testing.T) {
	tests := map[string]string{
		"no file":        "",
		"another kind":   "kind: Namespace\nmetadata: {name: a}\n",
		"without a name": "kind: CustomResourceDefinition\n",
		"no YAML":        "kind: [",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if content != "" {
				if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			names, err := crdNames(folder)

			if err == nil {
				t.Errorf("got %q and no error", names)
			}
		})
	}
}
