// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command words reports phrases in Go comments and pages that often belong to a sentence that must be read twice, with a better
// form. It reads all files of the repository that are not generated. Text in backquotes and code blocks is not checked.
package main

import (
	"context"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// phrase is a pattern, and the better form.
type phrase struct {
	pattern *regexp.Regexp
	instead string
}

var phrases = []phrase{
	{words(`(that|those) of`), `repeat the noun, as in "the name of the kind"`},
	{words(`what (is|was|it|they|others|differs|has|had|can|must|waits|belongs|keeps|makes)`), `name the thing, as in "the missing key"`},
	{words(`(is|are|was|were) none`), `write "has no", "without" or "is absent"`},
	{words(`(the|is|for|as|of|to|from|by|with|and|or|than) one (that|which)`), `repeat the noun, as in "a pod that fails"`},
	{words(`besides?`), `write "in addition to", "apart from" or "next to"`},
	{words(`whoever|somebody`), `name the actor, as in "a user" or "another client"`},
	{words(`again and again`), `write "repeatedly"`},
	{words(`tells?|told`), `write "reports", "shows", "names" or "distinguishes"`},
	{words(`an own|own writes?`), `write "its own", or name the writer`},
	{words(`look(s|ed) at`), `write "reads", "checks" or "examines"`},
	{words(`in the way`), `name the conflict, as in "has another owner"`},
	{words(`whose (it|the|an)`), `name the owner`},
}

// words returns the pattern of words that may be on two lines.
func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
}

var (
	generated  = regexp.MustCompile(`(^|/)(zz_|testdata/)|^pkg/generated/|^docs/(api|flags)\.md$`)
	codeSpans  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	question   = regexp.MustCompile(`^[^.:;!|]*\?`)
	notNewline = regexp.MustCompile(`[^\n]`)
)

func main() {
	found, err := check(context.Background(), ".")
	for _, line := range found {
		fmt.Fprintln(os.Stderr, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// check returns the findings in a repository.
func check(ctx context.Context, root string) (found []string, err error) {
	files, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "*.go", "*.md").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for file := range strings.Lines(string(files)) {
		if file = strings.TrimSpace(file); generated.MatchString(file) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text := string(content)
		if strings.HasSuffix(file, ".go") {
			text = comments(content)
		}
		for _, finding := range inText(text) {
			found = append(found, file+":"+finding)
		}
	}
	return found, nil
}

// comments returns the line comments of a Go file, each in its line. A line of code separates comments. The name with which the
// comment of a declaration begins is left out.
func comments(source []byte) string {
	code := strings.Split(string(source), "\n")
	lines := slices.Repeat([]string{"."}, len(code))
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if text, isProse := strings.CutPrefix(text, "// "); isProse && kind == token.COMMENT && !strings.HasPrefix(text, "+") {
			lines[file.Line(at)-1] = text
		}
	}
	for i := len(lines) - 2; i >= 0; i-- {
		begins := i == 0 || lines[i-1] == "."
		if name, rest, _ := strings.Cut(lines[i], " "); begins && name != "." && strings.Contains(declaration(code, i), name) {
			lines[i] = "_ " + rest
		}
	}
	return strings.Join(lines, "\n")
}

// declaration returns the line of code after the comment that begins at a line.
func declaration(code []string, at int) string {
	for _, line := range code[at:] {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			return line
		}
	}
	return ""
}

// inText returns the findings in a text, each with its line. Questions are not checked.
func inText(text string) (found []string) {
	text = codeSpans.ReplaceAllStringFunc(text, func(code string) string { return notNewline.ReplaceAllString(code, "_") })
	for _, p := range phrases {
		for _, match := range p.pattern.FindAllStringIndex(text, -1) {
			begin, end := match[0], match[1]
			if question.MatchString(text[end:]) {
				continue
			}
			shown := strings.Join(strings.Fields(text[begin:end]), " ")
			found = append(found, fmt.Sprintf("%d: %q: %s", strings.Count(text[:begin], "\n")+1, shown, p.instead))
		}
	}
	return found
}
