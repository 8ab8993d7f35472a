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

// TestStatusPageNamesEverything holds that a reader finds each condition and reason of each
// group: the values of all constants in pkg/apis whose names begin with Condition or Reason.
func TestStatusPageNamesEverything(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "pkg", "apis", "*", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		for constant, value := range statusConstants(t, name) {
			if found++; !strings.Contains(string(page), "`"+value+"`") {
				t.Errorf("docs/status.md does not name `%s` (%s of %s)", value, constant, name)
			}
		}
	}
	if found == 0 {
		t.Error("there are no conditions and reasons")
	}
}

// TestNamedTestsExist holds that the tests exist that pages name as proof.
func TestNamedTestsExist(t *testing.T) {
	exist := map[string]bool{}
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testFunction.FindAllSubmatch(content, -1) {
			exist[string(match[1])] = true
		}
	}
	named := 0
	for _, page := range markdownPages(t) {
		for _, match := range namedTest.FindAllStringSubmatch(readPage(t, page), -1) {
			if named++; !exist[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTest    = regexp.MustCompile("`(Test[A-Z]\\w+)`")
)

// statusConstants returns the values of the constants for conditions and reasons in a file.
func statusConstants(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(name.Name, "Condition") && !strings.HasPrefix(name.Name, "Reason") || i >= len(spec.Values) {
				continue
			}
			if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[name.Name] = value
			}
		}
		return true
	})
	return found
}
