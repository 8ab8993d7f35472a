// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"regexp"
	"strings"
)

// anything is the text that stands for any text, or any lines.
const anything = "..."

var (
	age       = regexp.MustCompile(`^(\d+(ms|[smhd]))+$|^(\d+\.\d+s)$`)
	randomEnd = regexp.MustCompile(`^(.+?)-[0-9a-f]{7,10}(-[0-9a-z]{5})?$`)
)

// matches reports whether output is as expected. Spaces between words do not count.
func matches(expected, output []string) bool {
	if len(expected) == 0 {
		return len(output) == 0
	}
	if strings.TrimSpace(expected[0]) == anything {
		for skipped := 0; skipped <= len(output); skipped++ {
			if matches(expected[1:], output[skipped:]) {
				return true
			}
		}
		return false
	}
	return len(output) > 0 && matchesLine(expected[0], output[0]) && matches(expected[1:], output[1:])
}

// matchesLine compares two lines word by word. The word "..." stands for any words.
func matchesLine(expected, line string) bool {
	return matchesWords(strings.Fields(expected), strings.Fields(line))
}

func matchesWords(expected, words []string) bool {
	if len(expected) == 0 {
		return len(words) == 0
	}
	if expected[0] == anything {
		for skipped := 0; skipped <= len(words); skipped++ {
			if matchesWords(expected[1:], words[skipped:]) {
				return true
			}
		}
		return false
	}
	return len(words) > 0 && matchesWord(expected[0], words[0]) && matchesWords(expected[1:], words[1:])
}

// matchesWord compares two words. "..." within a word stands for any text. An age matches any age,
// and a name with a random end any name with the same beginning and such an end.
func matchesWord(expected, word string) bool {
	if expected == word || age.MatchString(expected) && age.MatchString(word) {
		return true
	}
	if strings.Contains(expected, anything) {
		parts := strings.Split(expected, anything)
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(word)
	}
	one, other := randomEnd.FindStringSubmatch(expected), randomEnd.FindStringSubmatch(word)
	return one != nil && other != nil && one[1] == other[1] && (one[2] == "") == (other[2] == "")
}
