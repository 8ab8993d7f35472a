// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestFindings(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"a phrase":         {"The name is\nthat of the kind.", []string{`2: "that of": repeat the noun, as in "the name of the kind"`}},
		"on two lines":     {"The name is that\nof the kind.", []string{`1: "that of": repeat the noun, as in "the name of the kind"`}},
		"upper case":       {"Whoever may edit Secrets.", []string{`1: "Whoever": name the actor, as in "a user" or "another client"`}},
		"parts of a word":  {"thatof, pretells, mentions", nil},
		"a code span":      {"`kubectl tell` prints it", nil},
		"a code block":     {"```\nwhat is told\n```\n", nil},
		"a question":       {"What is the state of this object?", nil},
		"after a question": {"Ready? It says what is missing.", []string{`1: "what is": name the thing, as in "the missing key"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := inText(test.text); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestComments: only comments are read, a line of code ends a sentence, and names of declarations are left out.
func TestComments(t *testing.T) {
	source := "// a that\nconst told = `// told` // end\n//nolint:told\n// +told\n// of b\n// c\n\n// told is d\nvar told string\n"

	if got, want := comments([]byte(source)), "a that\nend\n.\n.\nof b\nc\n.\n_ is d\n.\n."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
