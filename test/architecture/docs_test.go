// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestStatusPageNamesEverything: whoever looks up a condition or a reason finds it.
func TestStatusPageNamesEverything(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "pkg", "apis", "*", "*", "conditions.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no group has conditions: %v", err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), "`"+text+"`") {
				t.Errorf("docs/status.md does not name %s of %s", text, name)
			}
			return true
		})
	}
}
