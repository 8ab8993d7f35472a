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
)

// largest is the number of lines that a plain kind may have, comments included, without its types
// and tests.
var largest = map[string]int{
	"pkg/controller/kinds/appconfig":         300,
	"pkg/controller/kinds/appstack":          300,
	"pkg/controller/kinds/backup":            300,
	"pkg/controller/kinds/ecommerceplatform": 335,
	"pkg/controller/kinds/memcachedbackup":   300,
	"pkg/controller/kinds/postgresql":        710,
	"pkg/controller/kinds/webapp":            305,
	"pkg/controller/kinds/website":           300,
}

// TestPlainKindsAreSmall holds the size of plain kinds: what another kind needs, too, belongs in a
// shared package.
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
