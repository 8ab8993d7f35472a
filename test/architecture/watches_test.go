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

// watchesPage is the page about watches.yaml.
func watchesPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "watches.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// parse parses a Go file of the repository.
func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWatchesPageNamesTests holds that each test that the page names exists.
func TestWatchesPageNamesTests(t *testing.T) {
	tests := map[string]bool{}
	for _, name := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, declaration := range parse(t, name).Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				tests[function.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(watchesPage(t), -1)
	if len(named) < 50 {
		t.Errorf("docs/watches.md names %d tests, fewer than its table has", len(named))
	}
	for _, match := range named {
		if !tests[match[1]] {
			t.Errorf("docs/watches.md names %s, which does not exist", match[1])
		}
	}
}

// TestWatchesPageNamesEverything holds that a reader finds each field of the file, and each
// annotation, condition, reason and finalizer of the custom resources.
func TestWatchesPageNamesEverything(t *testing.T) {
	page, found := watchesPage(t), 0
	want := func(quoted string) {
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		if found++; !strings.Contains(page, "`"+text+"`") {
			t.Errorf("docs/watches.md does not name `%s`", text)
		}
	}
	ast.Inspect(parse(t, "pkg/controller/kinds/watches/file/entry.go"), func(node ast.Node) bool {
		if pair, ok := node.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
				want(key.Value)
			}
		}
		return true
	})
	ast.Inspect(parse(t, "pkg/apis/watches/v1alpha1/conditions.go"), func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			want(literal.Value)
		}
		return true
	})
	if found < 50 {
		t.Errorf("%d names found in the sources, fewer than there are", found)
	}
}
