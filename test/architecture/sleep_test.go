// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNoSleeps holds that a test awaits conditions. Only in a bubble of
// testing/synctest may it sleep: there, Sleep moves the fake clock.
func TestNoSleeps(t *testing.T) {
	for _, file := range goFiles(t) {
		if !strings.HasPrefix(file, "test/") && !strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if sleeps(parsed) && !importsSynctest(parsed) {
			t.Errorf("%s calls time.Sleep outside of testing/synctest", file)
		}
	}
}

func TestSleeps(t *testing.T) {
	tests := []struct {
		name, body string
		want       bool
	}{
		{"call", "time.Sleep(time.Second)", true},
		{"value", "sleep := time.Sleep; sleep(1)", true},
		{"other function of the package", "<-time.After(time.Second)", false},
		{"other package", "clock.Sleep(time.Second)", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\nfunc f() { "+test.body+" }\n", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := sleeps(parsed); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func sleeps(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "Sleep" {
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "time" {
				found = true
			}
		}
		return !found
	})
	return found
}

func importsSynctest(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		return spec.Path.Value == `"testing/synctest"`
	})
}
