// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// promisesPage names the promises of pages with their tests.
const promisesPage = "test/promises.md"

// parse parses a Go file of the repository.
func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPromisesHaveTests holds that each promise in test/promises.md has a test. TestNamedTestsExist holds
// that the tests exist.
func TestPromisesHaveTests(t *testing.T) {
	promises, last := 0, ""
	for line := range strings.SplitSeq(readPage(t, promisesPage), "\n") {
		cells := strings.Split(line, "|")
		isHead := !strings.HasPrefix(last, "|")
		last = line
		if len(cells) < 4 || isHead || strings.HasPrefix(line, "|---") {
			continue
		}
		if promises++; !namedTest.MatchString(cells[len(cells)-2]) {
			t.Errorf("%s: no test holds %s", promisesPage, line)
		}
	}
	if promises < 90 {
		t.Errorf("%s has %d promises, fewer than there are", promisesPage, promises)
	}
}

// TestPagesForUsersNameNoTests holds that test/promises.md names the tests, and not the pages about its
// promises.
func TestPagesForUsersNameNoTests(t *testing.T) {
	for _, page := range []string{"docs/watches.md", "docs/migration.md", "docs/capacity.md", "docs/library.md", "docs/cli.md"} {
		for _, match := range namedTest.FindAllStringSubmatch(readPage(t, page), -1) {
			t.Errorf("%s names %s", page, match[1])
		}
	}
}

// TestWatchesPageNamesEverything holds that a reader finds each field of the file, and each
// annotation, condition, reason and finalizer of the custom resources, and that each of them has a test.
func TestWatchesPageNamesEverything(t *testing.T) {
	found, pages := 0, map[string]string{}
	for _, page := range []string{"docs/watches.md", promisesPage} {
		pages[page] = readPage(t, page)
	}
	want := func(quoted string) {
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		found++
		for name, content := range pages {
			if !strings.Contains(content, "`"+text+"`") {
				t.Errorf("%s does not name `%s`", name, text)
			}
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
