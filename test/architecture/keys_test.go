// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ownKey is a label, annotation or finalizer in a domain of this project.
var ownKey = regexp.MustCompile(`^([a-z.]+\.)?(demo\.example\.com|example\.com|my\.domain)/[a-z][a-z-]*$`)

// TestKeysAreDocumented holds that docs/labels-and-annotations.md has each label, annotation and
// finalizer of this project.
func TestKeysAreDocumented(t *testing.T) {
	const pageName = "docs/labels-and-annotations.md"
	page, err := os.ReadFile(filepath.Join(root, pageName))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range goFiles(t) {
		if !within(file, "pkg") || within(file, "pkg/generated") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if key, err := strconv.Unquote(literal.Value); err == nil && ownKey.MatchString(key) {
					found[key] = file
				}
			}
			return true
		})
	}
	if len(found) < 20 {
		t.Fatalf("found only %d keys: %v", len(found), found)
	}
	for key, file := range found {
		if !strings.Contains(string(page), "`"+key) {
			t.Errorf("%s has the key %s: describe it in %s", file, key, pageName)
		}
	}
}
