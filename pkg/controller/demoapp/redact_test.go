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

type textError struct{ text string }

func (e *textError) Error() string { return e.text }
