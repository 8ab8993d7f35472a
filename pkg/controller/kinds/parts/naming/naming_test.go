// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// digest is the beginning of the SHA-256 of "node".
const digest = "545ea53846"

func TestHashed(t *testing.T) {
	tests := []struct {
		name, text    string
		limit, digits int
		want          string
	}{
		{"short text", "web", 253, 10, "web-" + digest},
		{"fewer digits", "web", 253, 8, "web-" + digest[:8]},
		{"text as long as fits", "abcd", 15, 10, "abcd-" + digest},
		{"text that is cut", "abcde", 15, 10, "abcd-" + digest},
		{"cut behind a dash", "abc-e", 15, 10, "abc-" + digest},
		{"cut behind dots and dashes", "ab.-e", 15, 10, "ab-" + digest},
		{"room for one character", "abc", 12, 10, "a-" + digest},
		{"no room for text", "abc", 11, 10, digest},
		{"less room than the hash needs", "abc", 0, 10, digest},
		{"no text", "", 253, 10, digest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Hashed(test.text, "node", test.limit, test.digits); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("n", 64)
	tests := []struct{ name, text, want string }{
		{"short", "node", "node"},
		{"as long as the limit", long[:63], long[:63]},
		{"too long", long, Hashed(long, long, 63, 8)},
		{"too long, with dots", strings.Repeat("n", 100) + ".example.com", Hashed(long, strings.Repeat("n", 100)+".example.com", 63, 8)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Shortened(test.text, validation.LabelValueMaxLength, 8)

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if problems := validation.IsValidLabelValue(got); problems != nil {
				t.Errorf("%q is not a valid label value: %v", got, problems)
			}
		})
	}
}
