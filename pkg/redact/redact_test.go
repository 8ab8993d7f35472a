// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/test/expect"
)

// textError is an error of another component.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func TestError(t *testing.T) {
	tests := []struct {
		name, secret, text, want string
	}{
		{"no secret in the text", "verysecret", "connection refused", "connection refused"},
		{"plain", "verysecret", `invalid value "verysecret"`, `invalid value "REDACTED"`},
		{"twice", "verysecret", "verysecret, again verysecret", "REDACTED, again REDACTED"},
		{"in base64", "verysecret", "data: dmVyeXNlY3JldA==", "data: REDACTED"},
		{"quoted by Go", `very"secret`, `invalid value "very\"secret"`, `invalid value "REDACTED"`},
		{"in JSON", "very<secret>", `{"apiKey":"very\u003csecret\u003e"}`, `{"apiKey":"REDACTED"}`},
		{"too short to be a secret", "key", "the key is missing", "the key is missing"},
		{"empty", "", "connection refused", "connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cause := &textError{test.text}

			err := Error([]string{test.secret}, fmt.Errorf("apply: %w", cause))

			expect.Equal(t, "text", "apply: "+test.want, err.Error())
			var found *textError
			if !errors.As(err, &found) || found != cause {
				t.Errorf("%v does not wrap the original error", err)
			}
		})
	}
}

func TestNoError(t *testing.T) {
	if err := Error([]string{"verysecret"}, nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestSecretWithinSecret(t *testing.T) {
	got := Text([]string{"inner", "with inner in it"}, "with inner in it and inner")

	expect.Equal(t, "text", "REDACTED and REDACTED", got)
}

func TestNumberForms(t *testing.T) {
	tests := []struct {
		name, plain string
		value       float64
		text, want  string
	}{
		{"plain", "271828", 271828, "got 271828", "got REDACTED"},
		{"in groups of three digits", "271828", 271828, "maximum: got 271,828, want 10", "maximum: got REDACTED, want 10"},
		{"a large number as Go formats it", "314159265358979330000", 314159265358979323846, "got 3.1415926535897933e+20", "got REDACTED"},
		{"a negative number", "-31415926", -31415926, "minimum: got -31,415,926, want 10", "minimum: got REDACTED, want 10"},
		{"a fraction", "2718.25", 2718.25, "got 2718.25 or 2,718.25", "got REDACTED or REDACTED"},
		{"too short to be a secret", "271", 271, "got 271, and 1 of 271 pods", "got 271, and 1 of 271 pods"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Text(NumberForms(test.plain, test.value), test.text)

			expect.Equal(t, "text", test.want, got)
		})
	}
}

// TestTruncationRemovesPartialSecret moves a secret across the cut of a long text, byte by byte.
func TestTruncationRemovesPartialSecret(t *testing.T) {
	const secret = "hunter22-and-more"
	r := New([]string{secret, "world-of-" + secret, "hello-world"})
	for before := MaxTextBytes - 80; before <= MaxTextBytes; before++ {
		text := strings.Repeat(".", before) + "hello-world-of-" + secret + strings.Repeat(", and so on", 1000)

		got := r.Text(text)

		if len(got) > MaxTextBytes+len(Mark) {
			t.Errorf("the result has %d bytes", len(got))
		}
		for length := minSecretLength; length <= len(secret); length++ {
			if strings.Contains(got, secret[:length]) || strings.Contains(got, "hello-world"[:min(length, 11)]) {
				t.Fatalf("with %d bytes before, the end is %q", before, got[max(0, len(got)-40):])
			}
		}
		if !strings.HasSuffix(got, message.Ellipsis) {
			t.Errorf("the result ends in %q, without %q", got[len(got)-len(message.Ellipsis):], message.Ellipsis)
		}
	}
}

func TestShortTextIsKept(t *testing.T) {
	expect.Equal(t, "text", "as it is", New([]string{"verysecret"}).Text("as it is"))
}

// TestOverlappingBeginnings: a text is withheld if its end repeats the beginning of a secret many
// times. To remove all of them would cost one search over all secrets for each.
func TestOverlappingBeginnings(t *testing.T) {
	secrets := make([]string, 0, 900)
	for i := range 900 {
		secrets = append(secrets, fmt.Sprintf("abcd-%d-%s", i, strings.Repeat("x", 1000)))
	}
	r := New(secrets)

	withheld := 0
	for shift := range len("abcd") {
		// With one of the shifts, the cut is behind a whole "abcd".
		if got := r.Text(strings.Repeat(".", shift) + strings.Repeat("abcd", 10_000)); strings.Contains(got, tooManyBeginnings) {
			withheld++
		}
	}

	expect.Equal(t, "withheld texts", 1, withheld)
}

// TestLongTextIsCheap: time and memory do not depend on the length of a text.
func TestLongTextIsCheap(t *testing.T) {
	secrets := make([]string, 0, maxSecrets)
	for i := range maxSecrets {
		secrets = append(secrets, fmt.Sprintf("secret-%d-%s", i, strings.Repeat("x", i)))
	}
	text := strings.Repeat("at '/extraEnv/17/value': got secret-17-\n", 1_500_000)

	took := allocated(func() {
		r := New(secrets)
		for range 20 {
			if got := r.Text(text); len(got) > 2*MaxTextBytes {
				t.Errorf("the result has %d bytes", len(got))
			}
		}
	})

	if took > maxMemory {
		t.Errorf("allocated %d MiB", took>>20)
	}
}

func TestTooManySecretsWithholdText(t *testing.T) {
	secrets := make([]string, 0, maxSecrets+1)
	for i := range maxSecrets + 1 {
		secrets = append(secrets, fmt.Sprintf("secret-%d", i))
	}
	cause := errors.New("connection refused")

	err := Error(secrets, fmt.Errorf("got secret-1: %w", cause))

	expect.Equal(t, "text", "the detail is left out, because it could show values from Secrets: the values from Secrets have more than 1000 texts", err.Error())
	if !errors.Is(err, cause) {
		t.Error("the error does not wrap its cause")
	}
	expect.Equal(t, "text with the most secrets", "got REDACTED", Text(secrets[1:], "got secret-1000"))
	expect.Equal(t, "text with one secret many times", "got REDACTED", Text(slices.Repeat([]string{"secret"}, 2000), "got secret"))
}

func TestTextHasOneLine(t *testing.T) {
	expect.Equal(t, "lines", "validation failed: - at '/a': wrong; - at '/b': wrong", Text(nil, "validation failed:\n- at '/a': wrong\r\n\n  - at '/b': wrong\n"))
	expect.Equal(t, "a secret of two lines", "got REDACTED", Text([]string{"line 1\nline 2"}, "got line 1\nline 2"))
}

func TestSecretsQuotedBySchemaValidation(t *testing.T) {
	for _, text := range []string{`'it\'s "secret"' does not match`, `at '/podLabels/a~1b~0c': no`, `values.podLabels["a/b~c"]: no`} {
		got := Text([]string{`it's "secret"`, "a/b~c"}, text)

		if !strings.Contains(got, Mark) || strings.Contains(got, "secret") || strings.Contains(got, "~") {
			t.Errorf("%q shows a secret", got)
		}
	}
}

// allocated returns how many bytes a function allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestPublicNames(t *testing.T) {
	public := func() []string { return []string{"demo-app", "web-1", "Deployment", ""} }
	tests := map[string]struct{ secret, text, want string }{
		"a name":                   {"demo-app", "render chart demo-app: no", "render chart demo-app: no"},
		"a part of a name":         {"demo", "render chart demo-app with demo", "render chart demo-app with REDACTED"},
		"a kind":                   {"Deployment", "Deployment default/web-1", "Deployment default/web-1"},
		"a longer secret":          {"demo-app-pw", "demo-app has demo-app-pw", "demo-app has REDACTED"},
		"a secret behind a name":   {"1pass", "web-1pass", "web-REDACTED"},
		"a secret in front of one": {"pass-w", "pass-web-1", "REDACTEDeb-1"},
		"a secret around a name":   {"x-web-1-y", "x-web-1-y", "REDACTED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, "text", test.want, New([]string{test.secret}).Keeping(public).Text(test.text))
		})
	}
}
