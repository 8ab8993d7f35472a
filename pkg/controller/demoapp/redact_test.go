// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"testing"
)

func TestRedactError(t *testing.T) {
	tests := []struct {
		name, key, text, want string
	}{
		{"no key in it", "verysecret", "connection refused", "connection refused"},
		{"plain", "verysecret", `invalid value "verysecret"`, `invalid value "REDACTED"`},
		{"twice", "verysecret", "verysecret, again verysecret", "REDACTED, again REDACTED"},
		{"as a Secret holds it", "verysecret", "data: dmVyeXNlY3JldA==", "data: REDACTED"},
		{"quoted", `very"secret`, `invalid value "very\"secret"`, `invalid value "REDACTED"`},
		{"as JSON", "very<secret>", `{"apiKey":"very\u003csecret\u003e"}`, `{"apiKey":"REDACTED"}`},
		{"shorter than a secret", "key", "the key is missing", "the key is missing"},
		{"unknown", "", "connection refused", "connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cause := &textError{test.text}
			err := redactError([]string{test.key}, fmt.Errorf("apply: %w", cause))
			equal(t, "text", "apply: "+test.want, err.Error())
			var found *textError
			if !errors.As(err, &found) || found != cause {
				t.Errorf("%v does not match what it wraps", err)
			}
		})
	}
}

func TestRedactNestedSecrets(t *testing.T) {
	equal(t, "text", "REDACTED and REDACTED", redact([]string{"inner", "with inner in it"}, "with inner in it and inner"))
}

func TestRedactNumbers(t *testing.T) {
	values, err := parseValues("pin: 271828\nlist: [{ratio: 2718.25}, -31415926]\nshort: 271\nyes: true\nhuge: 314159265358979323846\n")
	must(t, err)
	tests := []struct{ name, text, want string }{
		{"in full", "got 271828", "got REDACTED"},
		{"as Go writes a large one", "got 314159265358979330000 or 3.1415926535897933e+20", "got REDACTED or REDACTED"},
		{"in groups", "maximum: got 271,828, want 10", "maximum: got REDACTED, want 10"},
		{"below zero", "minimum: got -31,415,926, want 10", "minimum: got REDACTED, want 10"},
		{"a fraction", "got 2718.25 or 2,718.25", "got REDACTED or REDACTED"},
		{"a short one, which may be any", "got 271, and 1 of 271 pods", "got 271, and 1 of 271 pods"},
		{"a boolean", "got true, want string", "got true, want string"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "text", test.want, redact(textsIn(values), test.text))
		})
	}
}

type textError struct{ text string }

func (e *textError) Error() string { return e.text }
