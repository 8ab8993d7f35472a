// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// redacted stands where a secret was.
const redacted = "REDACTED"

// minSecretLength is the length in bytes from which a text can be a secret.
// Shorter ones are parts of ordinary words, and are guessed at once anyhow.
const minSecretLength = 4

// maxMessage is how many bytes of an error's text are looked at and shown.
const maxMessage = 4096

// maxSecretTexts is how many different texts are looked for in a message.
const maxSecretTexts = 1000

// redactor takes secrets out of texts of other components, which may repeat them. It is
// built once for many messages.
type redactor struct {
	// withheld, when set, stands for every message.
	withheld string
	// forms are the ways in which a message may write the secrets, the longest first.
	forms    []string
	replacer *strings.Replacer
}

// newRedactor returns the redactor of some secrets. Where they are more than it can look
// for, no message is shown at all.
func newRedactor(secrets []string) *redactor {
	seen := make(map[string]bool, min(len(secrets), maxSecretTexts))
	r := &redactor{}
	for _, secret := range secrets {
		if len(secret) < minSecretLength || seen[secret] {
			continue
		}
		if len(seen) == maxSecretTexts {
			return withholding(fmt.Sprintf("the values from Secrets have more than %d texts", maxSecretTexts))
		}
		seen[secret] = true
		r.forms = append(r.forms, formsOf(secret)...)
	}
	// The replacer takes the first that fits, and a short one may begin a longer one.
	slices.SortFunc(r.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.forms = slices.Compact(r.forms)
	pairs := make([]string, 0, 2*len(r.forms))
	for _, form := range r.forms {
		pairs = append(pairs, form, redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// withholding returns a redactor that shows nothing, and says why.
func withholding(why string) *redactor {
	return &redactor{withheld: "the detail is left out, because it could show values from Secrets: " + why}
}

// text returns a text as it may be shown: cut, without secrets, in one line. It is cut
// before anything looks at it, and what may be the beginning of a secret at the cut goes
// as well.
func (r *redactor) text(text string) string {
	switch {
	case text == "":
		return ""
	case r.withheld != "":
		return r.withheld
	}
	kept, wasCut := cutText(text)
	if wasCut {
		var ok bool
		if kept, ok = r.withoutBeginning(kept); !ok {
			return withholding(tooManyBeginnings).withheld
		}
	}
	kept = inOneLine(r.replacer.Replace(kept))
	if wasCut {
		kept += cut
	}
	return kept
}

// maxBeginnings is how many partial secrets are looked for at one cut. Secrets that are
// made to overlap would otherwise cost a look at all of them for each.
const maxBeginnings = 3

const tooManyBeginnings = "it ends in parts of secrets"

// withoutBeginning removes the end of a text that was cut, as far as a secret begins
// with it, and again what is then a part of another one. It gives up on texts in which
// that goes on.
func (r *redactor) withoutBeginning(text string) (kept string, ok bool) {
	for range maxBeginnings {
		length := 0
		for _, form := range r.forms {
			length = max(length, overlap(text, form))
		}
		text = text[:len(text)-length]
		if length < minSecretLength {
			return text, true
		}
	}
	return "", false
}

// overlap is the length of the longest end of text that form begins with.
func overlap(text, form string) int {
	for length := min(len(text), len(form)); length > 0; length-- {
		if text[len(text)-length] == form[0] && strings.HasSuffix(text, form[:length]) {
			return length
		}
	}
	return 0
}

// error returns an error with the text as it may be shown. It still matches what it
// wraps.
func (r *redactor) error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := r.text(text); shown != text {
		return &redactedError{text: shown, err: err}
	}
	return err
}

// redact takes secrets out of one text.
func redact(secrets []string, text string) string { return newRedactor(secrets).text(text) }

// redactError takes secrets out of the text of one error.
func redactError(secrets []string, err error) error { return newRedactor(secrets).error(err) }

// messageOf is a text without secrets as a message has it: cut, and in one line.
func messageOf(text string) string { return redact(nil, text) }

// cutText returns the beginning of a long text, and reports whether there was more.
func cutText(text string) (kept string, wasCut bool) {
	if len(text) <= maxMessage {
		return text, false
	}
	end := maxMessage - len(cut)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]), true
}

// inOneLine joins the lines of a text.
func inOneLine(text string) string {
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

// formsOf are the ways in which a message may write a secret: plain, quoted as Go, JSON
// and the check against the chart's schema do it, as a part of a path, and as a Secret
// holds it. Of a long secret, only the beginning can be in a message.
func formsOf(secret string) []string {
	encoding := base64.StdEncoding
	if len(secret) > maxMessage {
		secret = secret[:maxMessage/3*3]
		encoding = base64.RawStdEncoding
	}
	quoted := unquoted(strconv.Quote(secret))
	forms := []string{
		secret, quoted, strings.ReplaceAll(strings.ReplaceAll(quoted, `\"`, `"`), `'`, `\'`),
		strings.ReplaceAll(strings.ReplaceAll(secret, "~", "~0"), "/", "~1"),
		encoding.EncodeToString([]byte(secret)),
	}
	if encoded, err := json.Marshal(secret); err == nil {
		forms = append(forms, unquoted(string(encoded)))
	}
	return slices.Compact(forms)
}

// numberForms are the ways in which a message may write a number: in full, as Go
// does it, and in groups of three, as the check against the chart's schema does it.
func numberForms(plain string, value float64) []string {
	grouped, first := plain, 0
	if value < 0 {
		first = 1
	}
	end := len(plain)
	if point := strings.Index(plain, "."); point >= 0 {
		end = point
	}
	for at := end - 3; at > first; at -= 3 {
		grouped = grouped[:at] + "," + grouped[at:]
	}
	return []string{plain, strconv.FormatFloat(value, 'g', -1, 64), grouped}
}

func unquoted(text string) string { return text[1 : len(text)-1] }

// redactedError is an error whose text does not show the secrets. It still matches
// what it wraps.
type redactedError struct {
	text string
	err  error
}

// Error implements error.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the error as it was, for matching, not for printing.
func (e *redactedError) Unwrap() error { return e.err }
