// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// largest is the number of lines that a plain kind may have, comments included, without its types
// and tests.
var largest = map[string]int{
	"pkg/controller/kinds/appconfig":         315,
	"pkg/controller/kinds/appstack":          300,
	"pkg/controller/kinds/backup":            310,
	"pkg/controller/kinds/ecommerceplatform": 335,
	"pkg/controller/kinds/memcachedbackup":   300,
	"pkg/controller/kinds/postgresql":        730,
	"pkg/controller/kinds/webapp":            340,
	"pkg/controller/kinds/website":           300,
}

// TestPlainKindsAreSmall holds the size of plain kinds: code that another kind needs, too, belongs
// in a shared package.
func TestPlainKindsAreSmall(t *testing.T) {
	lines := map[string]int{}
	for _, file := range goFiles(t) {
		if _, ok := largest[path.Dir(file)]; !ok || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		lines[path.Dir(file)] += bytes.Count(content, []byte("\n"))
	}
	for folder, most := range largest {
		if got := lines[folder]; got == 0 || got > most {
			t.Errorf("%s has %d lines of Go, want 1 to %d", folder, got, most)
		}
	}
}

// TestDefinitionsFitKubectlApply: kubectl apply and Argo CD keep a copy of each CRD in an annotation,
// which holds 256 KiB at most.
func TestDefinitionsFitKubectlApply(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "artifacts", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := filepath.Glob(filepath.Join(root, "artifacts", "kinds", "*", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 || len(kinds) == 0 {
		t.Fatal("no CRD is found")
	}
	for _, file := range append(files, kinds...) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied, err := yaml.YAMLToJSON(content)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(copied) > 200<<10 {
			t.Errorf("%s has %d bytes as JSON, want at most 200 KiB", file, len(copied))
		}
	}
}
