// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message makes texts of any length and content fit the place that shows them: a field of
// the API such as the message of a condition, a terminal, a page.
package message

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis ends a message that was truncated.
const Ellipsis = "..."

// Truncate returns text in at most limit bytes, which must be more than the bytes of [Ellipsis]. A
// longer text is cut between two characters and ends in Ellipsis. Bytes that are not UTF-8 are
// replaced, because the API server does not store them.
func Truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	kept, isCut := Beginning(text, limit)
	if isCut {
		kept += Ellipsis
	}
	return kept
}

// Beginning returns text, or the part of it that fits limit bytes together with [Ellipsis], and
// whether the text was cut. It is for callers that change the beginning before they append
// Ellipsis. It does not keep a long text in memory.
func Beginning(text string, limit int) (kept string, isCut bool) {
	if len(text) <= limit {
		return text, false
	}
	end := limit - len(Ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]), true
}

// OneLine returns a text with single spaces in place of line breaks and other white space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Line returns a text on one line, as [OneLine] does, with at most limit bytes.
func Line(text string, limit int) string { return Truncate(OneLine(text), limit) }

// List joins the first items of a list, at most most, and counts the rest: "a, b and 3 more".
func List(items []string, most int) string {
	if more := len(items) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), more)
	}
	return strings.Join(items, ", ")
}

// JoinLines returns the lines of a text on one line, with a semicolon after each line that does not
// end with a colon.
func JoinLines(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	var line strings.Builder
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if line.Len() > 0 {
			if before := line.String(); before[len(before)-1] != ':' {
				line.WriteByte(';')
			}
			line.WriteByte(' ')
		}
		line.WriteString(part)
	}
	return line.String()
}

// Printable returns a text without characters that would control a terminal or the order of the
// text on a screen. Spaces and tabs stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
