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

// TestTroubleshootingQuotesMessages holds that the texts in the first column of
// docs/troubleshooting.md are messages, reasons or flags of the operator, so that a reader who
// searches the page for a message finds it.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	source := operatorSource(t)
	rows := 0
	for line := range strings.SplitSeq(readPage(t, "docs/troubleshooting.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			text := exampleFlag.ReplaceAllString(match[1], "")
			if !strings.HasPrefix(text, "kubectl ") && !strings.Contains(source, text) {
				t.Errorf("the operator has no text %q", match[1])
			}
		}
	}
	if rows < 25 {
		t.Errorf("the page has %d rows, expected at least 25 symptoms", rows)
	}
}

var (
	quoted      = regexp.MustCompile("`([^`]+)`")
	exampleFlag = regexp.MustCompile(`^--[a-z-]+=\S+: `)
)

// operatorSource returns the Go files of the operator without its tests.
func operatorSource(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, file := range goFiles(t) {
		if !within(file, "pkg") && !within(file, "cmd") || strings.HasSuffix(file, "_test.go") || within(file, "pkg/generated") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}

// TestGoBlocksAreCompiled holds that each Go block of a page is a part of a Go file, which is
// compiled with its package. A line "// ..." stands for left out lines.
func TestGoBlocksAreCompiled(t *testing.T) {
	sources := map[string]string{}
	for _, file := range goFiles(t) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		sources[file] = string(content)
	}
	found := 0
	for _, page := range markdownPages(t) {
		for _, match := range goBlock.FindAllStringSubmatch(readPage(t, page), -1) {
			found++
			compiled := false
			for _, source := range sources {
				compiled = compiled || hasParts(source, leftOut.Split(match[1], -1))
			}
			if !compiled {
				t.Errorf("%s: no Go file has this block:\n%s", page, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page has a Go block")
	}
}

// TestHasParts holds that TestGoBlocksAreCompiled can fail.
func TestHasParts(t *testing.T) {
	const source = "func a() {\n\tb()\n\tc()\n}\n"
	for block, want := range map[string]bool{
		"func a() {\n\tb()\n\tc()\n}\n":    true,
		"func a() {\n\t// ...\n\tc()\n}\n": true,
		"\tc()\n\t// ...\n\tb()\n":         false,
		"func a() {\n\tb(1)\n":             false,
	} {
		if got := hasParts(source, leftOut.Split(block, -1)); got != want {
			t.Errorf("hasParts is %t, want %t: %s", got, want, block)
		}
	}
}

// hasParts reports whether a text has these parts, in order.
func hasParts(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$") //nolint:gocritic // Each ^ begins a line.
	leftOut = regexp.MustCompile(`(?m)^\t*// \.\.\.\n`)
)
