// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

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

// page is the page that lists the tests of this package with their results.
const page = "../../docs/reliability.md"

// result is the number of disturbed runs of a test, and how many of them failed.
type result struct{ runs, failed int }

// rowOfTest matches a row of the page's table: its last columns are the test, the runs and the
// failures.
var rowOfTest = regexp.MustCompile("(?m)^(\\|.*\\| `(Test[A-Za-z]+)` )\\|[^|]*\\|[^|]*\\|$")

// withResults returns the page with new results of some tests.
func withResults(page string, results map[string]result) string {
	return rowOfTest.ReplaceAllStringFunc(page, func(row string) string {
		match := rowOfTest.FindStringSubmatch(row)
		came, ok := results[match[2]]
		if !ok {
			return row
		}
		return match[1] + "| " + strconv.Itoa(came.runs) + " | " + strconv.Itoa(came.failed) + " |"
	})
}

func TestWithResults(t *testing.T) {
	before := "| What | How | Test | Runs | Failed |\n|---|---|---|---|---|\n" +
		"| Requests | each | `TestOne` | 1 | 1 |\n| Watches | all | `TestTwo` |  |  |\n"

	got := withResults(before, map[string]result{"TestTwo": {runs: 30}})

	if want := strings.Replace(before, "`TestTwo` |  |  |", "`TestTwo` | 30 | 0 |", 1); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestPageHasAllTests holds that the table of the page has a row for each test that breaks
// something.
func TestPageHasAllTests(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, match := range rowOfTest.FindAllStringSubmatch(string(text), -1) {
		rows[match[2]]++
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Test") || file == "page_test.go" {
				continue
			}
			if name := function.Name.Name; name != "TestMain" && rows[name] != 1 {
				t.Errorf("%s has %d rows for %s, want 1", page, rows[name], name)
			}
		}
	}
}
