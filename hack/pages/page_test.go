// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	page := strings.Join([]string{
		"# Page", "", "Some", "[text](page.md).", "", "```console", "$ one \\", "    two", "output", "more", "$ cat <<EOF", "> three", "> EOF",
		"three", "```", "", "```yaml", "$ no command", "```", "",
		"<!-- not run: it needs nodes -->", "", "```console", "$ four", "```", "## Next", "<!-- run if: true -->", "```console", "$ five", "```",
	}, "\n")

	got, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}

	expected := []Section{
		{Blocks: []Block{
			{Text: "Some text.", Commands: []Command{
				{Line: 7, Text: "one \\\n    two", Expected: []string{"output", "more"}},
				{Line: 11, Text: "cat <<EOF\nthree\nEOF", Expected: []string{"three"}},
			}},
			{NotRun: "it needs nodes", Commands: []Command{{Line: 24, Text: "four"}}},
		}},
		{Title: "Next", Blocks: []Block{{RunIf: "true", Commands: []Command{{Line: 29, Text: "five"}}}}},
	}
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("got %+v\nexpected %+v", got, expected)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, page := range map[string]string{
		"output without a command":  "```console\noutput\n```",
		"a block without a reason":  "<!-- not run:  -->",
		"a comment without its end": "<!-- not run: reason",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Parse(page); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		name, expected, output string
		matches                bool
	}{
		{"equal", "a b", "a b", true},
		{"other width of columns", "NAME   AGE", "NAME AGE", true},
		{"other word", "a b", "a c", false},
		{"fewer words", "a b", "a", false},
		{"more words", "a", "a b", false},
		{"fewer lines", "a\nb", "a", false},
		{"more lines", "a", "a\nb", false},
		{"ages", "web 5s 3m2s", "web 12s 1h", true},
		{"age and number", "5s", "5", false},
		{"pods", "web-7d4b9c6f5d-x2x7k", "web-6c5f7d9b8c-abcde", true},
		{"pods of others", "web-7d4b9c6f5d-x2x7k", "db-6c5f7d9b8c-abcde", false},
		{"any text within a word", "key=...", "key=value", true},
		{"any words", "a ... d", "a b c d", true},
		{"no words", "a ... d", "a d", true},
		{"words that end otherwise", "a ... d", "a b c", false},
		{"any lines", "a\n...\nd", "a\nb\nc\nd", true},
		{"no lines", "a\n...", "a", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := matches(strings.Split(test.expected, "\n"), strings.Split(test.output, "\n")); got != test.matches {
				t.Errorf("got %t", got)
			}
		})
	}
}
