// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"strings"
	"testing"
)

func TestTruncate(t *testing.T) {
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"empty", "", 10, ""},
		{"short", "hello", 10, "hello"},
		{"as long as the limit", "0123456789", 10, "0123456789"},
		{"one byte too long", "0123456789a", 10, "0123456" + Ellipsis},
		{"cut inside a character of two bytes", strings.Repeat("ü", 10), 10, "üüü" + Ellipsis},
		{"cut inside a character of four bytes", strings.Repeat("\U0001F600", 5), 10, "\U0001F600" + Ellipsis},
		{"no room for a character", strings.Repeat("\U0001F600", 5), 6, Ellipsis},
		{"not UTF-8", "a\xff\xfeb", 10, "a\uFFFDb"},
		{"not UTF-8 at the cut", "012345\xff\xff89abc", 10, "012345" + Ellipsis},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Truncate(test.text, test.limit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBeginning(t *testing.T) {
	tests := []struct {
		name, text, want string
		isCut            bool
	}{
		{"short", "hello", "hello", false},
		{"long", "0123456789a", "0123456", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, isCut := Beginning(test.text, 10)

			if got != test.want || isCut != test.isCut {
				t.Errorf("got %q and %t, want %q and %t", got, isCut, test.want, test.isCut)
			}
		})
	}
}

func TestList(t *testing.T) {
	tests := []struct {
		name  string
		items []string
		want  string
	}{
		{"none", nil, ""},
		{"as many as the limit", []string{"a", "b"}, "a, b"},
		{"more than the limit", []string{"a", "b", "c", "d"}, "a, b and 2 more"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := List(test.items, 2); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "two words\tand ü", "two words\tand ü"},
		{"escape of a terminal", "a\x1b[31mb", "a\uFFFD[31mb"},
		{"line break", "a\nb", "a\uFFFDb"},
		{"order of the text", "a\u202Eb\u2066c", "a\uFFFDb\uFFFDc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Printable(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestJoinLines(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"one line", "two  spaces ", "two  spaces "},
		{"lines", "a\nb\r\n\n  c\n", "a; b; c"},
		{"list", "wrong:\n- a\n- b", "wrong: - a; - b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := JoinLines(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
