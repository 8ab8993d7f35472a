// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestLinks holds that each link of a page to a file, a folder or a heading of this repository
// leads somewhere.
func TestLinks(t *testing.T) {
	pages := markdownPages(t)
	checked := 0
	for _, page := range pages {
		for _, link := range links(readPage(t, page)) {
			checked++
			if why := broken(t, page, link.target); why != "" {
				t.Errorf("%s:%d: [%s](%s): %s", page, link.line, link.text, link.target, why)
			}
		}
	}
	if checked == 0 {
		t.Error("there are no links")
	}
}

// TestIndexHasEachPageOnce holds that a reader finds each page of docs in docs/README.md, with a
// line about it, and that the index has the four sections by purpose.
func TestIndexHasEachPageOnce(t *testing.T) {
	index := readPage(t, "docs/README.md")
	listed := map[string]int{}
	for _, match := range indexLine.FindAllStringSubmatch(index, -1) {
		listed["docs/"+match[1]]++
	}
	for _, page := range markdownPages(t) {
		if !within(page, "docs") || page == "docs/README.md" {
			continue
		}
		if listed[page] != 1 {
			t.Errorf("docs/README.md lists %s %d times, expected once in the form \"- [Title](page.md): what it is for.\"", page, listed[page])
		}
	}
	var sections []string
	for _, match := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(index, -1) {
		sections = append(sections, match[1])
	}
	if got := strings.Join(sections, ", "); got != "Tutorials, How-to guides, Reference, Explanation" {
		t.Errorf("the sections of docs/README.md are %s", got)
	}
}

// indexLine matches a line of the index about a page.
var indexLine = regexp.MustCompile(`(?m)^- \[[^]]+\]\(([^)#]+\.md)\): .+\.$`)

func TestSlug(t *testing.T) {
	tests := []struct{ heading, slug string }{
		{"Quick start", "quick-start"},
		{"What Ensure guarantees", "what-ensure-guarantees"},
		{"The flag `--workers`", "the-flag---workers"},
		{"Who, and [what](x.md)?", "who-and-what"},
		{"watches.yaml", "watchesyaml"},
		{"snake_case", "snake_case"},
	}
	for _, test := range tests {
		t.Run(test.heading, func(t *testing.T) {
			if got := slug(test.heading); got != test.slug {
				t.Errorf("got %q, expected %q", got, test.slug)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	tests := []struct {
		target string
		broken bool
	}{
		{"https://example.com/no-such-page", false},
		{"status.md", false},
		{"status.md#conditions", false},
		{"#reasons", false},
		{"../pkg/controller/kinds/website/", false},
		{"no-such-page.md", true},
		{"status.md#no-such-heading", true},
		{"#no-such-heading", true},
		{"../../outside.md", true},
	}
	for _, test := range tests {
		t.Run(test.target, func(t *testing.T) {
			if why := broken(t, "docs/status.md", test.target); (why != "") != test.broken {
				t.Errorf("got %q", why)
			}
		})
	}
}

// TestLinksInCodeDoNotCount holds that the lines of links are right and that code is not searched.
func TestLinksInCodeDoNotCount(t *testing.T) {
	page := "[a](a.md) and `[b](b.md)`\n\n```yaml\n[c](c.md)\n```\n![d](d.svg) [e](e.md#f)\n"

	var got []string
	for _, link := range links(page) {
		got = append(got, fmt.Sprintf("%d %s", link.line, link.target))
	}

	if joined := strings.Join(got, ", "); joined != "1 a.md, 6 d.svg, 6 e.md#f" {
		t.Errorf("got %s", joined)
	}
}

type link struct {
	line         int
	text, target string
}

var (
	inlineLink = regexp.MustCompile(`\[([^][]*)\]\(([^()\s]+)\)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
)

// links returns the links of a page outside of code.
func links(page string) []link {
	var found []link
	fenced := false
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		// A link may have code as its text.
		text := codeSpan.ReplaceAllStringFunc(line, func(code string) string { return strings.NewReplacer("[", "", "]", "").Replace(code) })
		for _, match := range inlineLink.FindAllStringSubmatch(text, -1) {
			found = append(found, link{line: i + 1, text: match[1], target: match[2]})
		}
	}
	return found
}

// broken returns why a link of a page leads nowhere, or "".
func broken(t *testing.T, page, target string) string {
	t.Helper()
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = path.Join(path.Dir(page), file)
	}
	if strings.HasPrefix(to, "..") {
		return "it leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return "there is no " + to
	}
	if anchor == "" {
		return ""
	}
	if path.Ext(to) != ".md" {
		return to + " has no headings"
	}
	if !headings(readPage(t, to))[anchor] {
		return to + " has no heading #" + anchor
	}
	return ""
}

// headings returns the anchors of a page's headings.
func headings(page string) map[string]bool {
	anchors := map[string]bool{}
	fenced := false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		title, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !strings.HasPrefix(line, "#") || !isHeading {
			continue
		}
		anchor := slug(title)
		for i := 1; anchors[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", slug(title), i)
		}
		anchors[anchor] = true
	}
	return anchors
}

// slug returns the anchor that GitHub gives to a heading.
func slug(heading string) string {
	heading = inlineLink.ReplaceAllString(strings.TrimSpace(heading), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}

// markdownPages returns the paths of all pages of the repository, relative to its root.
func markdownPages(t *testing.T) []string {
	t.Helper()
	return filesWith(t, ".md", func(name, relative string) error {
		if relative == "bin" || relative == ".git" || filepath.Base(name) == "testdata" {
			return filepath.SkipDir
		}
		return nil
	})
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
