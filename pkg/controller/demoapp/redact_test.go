// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	values, err := newValueBudget().parse("pin: 271828\nlist: [{ratio: 2718.25}, -31415926]\nshort: 271\nflag: true\nhuge: 314159265358979323846\n")
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
			equal(t, "text", test.want, redact(textsIn(values, nil), test.text))
		})
	}
}

type textError struct{ text string }

func (e *textError) Error() string { return e.text }

// TestLongMessages: a text is cut before anything looks at it, and the cut leaves no
// beginning of a secret, wherever the secret lies.
func TestLongMessages(t *testing.T) {
	const secret = "hunter22-and-more"
	r := newRedactor([]string{secret, "world-of-" + secret, "hello-world"})
	for before := maxMessage - 80; before <= maxMessage; before++ {
		text := strings.Repeat(".", before) + "hello-world-of-" + secret + strings.Repeat(", and so on", 1000)
		got := r.text(text)
		if len(got) > maxMessage+len(redacted) {
			t.Errorf("a text of %d bytes", len(got))
		}
		for length := minSecretLength; length <= len(secret); length++ {
			if strings.Contains(got, secret[:length]) || strings.Contains(got, "hello-world"[:min(length, 11)]) {
				t.Fatalf("with %d bytes before, the end is %q", before, got[max(0, len(got)-40):])
			}
		}
		contains(t, "end", got[len(got)-len(cut):], cut)
	}
	equal(t, "short", "as it is", r.text("as it is"))
}

// TestOverlappingBeginnings: a text whose end is a beginning of a secret again and again is
// left out, because to find all of them would take a look at all secrets for each.
func TestOverlappingBeginnings(t *testing.T) {
	secrets := make([]string, 0, 900)
	for i := range 900 {
		secrets = append(secrets, fmt.Sprintf("abcd-%d-%s", i, strings.Repeat("x", 1000)))
	}

	r, leftOut := newRedactor(secrets), 0
	for shift := range len("abcd") {
		// The cut is behind a whole beginning in one of them.
		if got := r.text(strings.Repeat(".", shift) + strings.Repeat("abcd", 10_000)); strings.Contains(got, tooManyBeginnings) {
			leftOut++
		}
	}

	equal(t, "texts that were left out", 1, leftOut)
}

// TestLongErrorIsCheap: a text of 60 MB with many secrets takes no time and memory that
// depend on its length.
func TestLongErrorIsCheap(t *testing.T) {
	secrets := make([]string, 0, maxSecretTexts)
	for i := range maxSecretTexts {
		secrets = append(secrets, fmt.Sprintf("secret-%d-%s", i, strings.Repeat("x", i)))
	}
	text := strings.Repeat("at '/extraEnv/17/value': got secret-17-\n", 1_500_000)
	took := allocated(func() {
		r := newRedactor(secrets)
		for range 20 {
			if got := r.text(text); len(got) > 2*maxMessage {
				t.Errorf("a text of %d bytes", len(got))
			}
		}
	})
	if took > maxParseMemory {
		t.Errorf("allocated %d MiB", took>>20)
	}
}

func TestMoreSecretsThanCanBeFound(t *testing.T) {
	secrets := make([]string, 0, maxSecretTexts+1)
	for i := range maxSecretTexts + 1 {
		secrets = append(secrets, fmt.Sprintf("secret-%d", i))
	}
	err := redactError(secrets, fmt.Errorf("got secret-1: %w", errPlain))
	equal(t, "text", "the detail is left out, because it could show values from Secrets: the values from Secrets have more than 1000 texts", err.Error())
	if !errors.Is(err, errPlain) {
		t.Error("the error does not match what it wraps")
	}
	equal(t, "as many as can be found", "got REDACTED", redact(secrets[1:], "got secret-1000"))
	equal(t, "the same one many times", "got REDACTED", redact(slices.Repeat([]string{"secret"}, 2000), "got secret"))
}

func TestMessagesHaveOneLine(t *testing.T) {
	equal(t, "lines", "validation failed: - at '/a': wrong; - at '/b': wrong", messageOf("validation failed:\n- at '/a': wrong\r\n\n  - at '/b': wrong\n"))
	equal(t, "a secret of several lines", "got REDACTED", redact([]string{"line 1\nline 2"}, "got line 1\nline 2"))
}

func TestRedactQuotedAsTheSchemaDoes(t *testing.T) {
	for _, text := range []string{`'it\'s "secret"' does not match`, `at '/podLabels/a~1b~0c': no`, `values.podLabels["a/b~c"]: no`} {
		got := redact([]string{`it's "secret"`, "a/b~c"}, text)
		contains(t, "text", got, redacted)
		if strings.Contains(got, "secret") || strings.Contains(got, "~") {
			t.Errorf("%q shows a secret", got)
		}
	}
}
