// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/example/demoapp-controller/pkg/message"
)

// Mark stands in the place of a secret.
const Mark = "REDACTED"

// MaxTextBytes is how many bytes of a text are searched and shown.
const MaxTextBytes = 4096

const (
	// minSecretLength is the length in bytes of the shortest text that is treated as a secret.
	// Shorter texts occur in ordinary words, and are easy to guess.
	minSecretLength = 4
	// maxSecrets is how many different secrets are searched for in a text.
	maxSecrets = 1000
	// maxBeginnings is how many partial secrets are searched for at one cut. Without the limit,
	// secrets that overlap would cost one search over all secrets for each overlap.
	maxBeginnings = 3
)

// tooManyBeginnings is why a text is withheld that ends in more than maxBeginnings partial secrets.
const tooManyBeginnings = "it ends in parts of secrets"

// Redactor removes a set of secrets from texts. It may be used concurrently. The first text pays
// for the preparation: a pass without a message to redact costs nothing.
type Redactor struct {
	secrets []string
	public  func() []string
	prepare sync.Once
	// withheld replaces every text, unless it is empty.
	withheld string
	// forms are the ways in which a text may write the secrets, the longest first.
	forms []string
	// blank replaces each byte of a secret by a zero byte.
	blank *strings.Replacer
}

// New returns the Redactor of secrets. Secrets of fewer than 4 bytes are ignored. With more than
// 1,000 different secrets, the Redactor withholds every text.
func New(secrets []string) *Redactor { return &Redactor{secrets: secrets} }

// Keeping returns a Redactor that leaves public names as they are, also if a secret is a name or a
// part of one. A mask in a public name would disclose the secret. It calls public only for texts
// with a secret.
func (r *Redactor) Keeping(public func() []string) *Redactor {
	return &Redactor{secrets: r.secrets, public: public, withheld: r.withheld}
}

// init prepares the search for the secrets.
func (r *Redactor) init() {
	seen := make(map[string]bool, min(len(r.secrets), maxSecrets))
	for _, secret := range r.secrets {
		if len(secret) < minSecretLength || seen[secret] {
			continue
		}
		if len(seen) == maxSecrets {
			r.withheld = withheld(fmt.Sprintf("the values from Secrets have more than %d texts", maxSecrets))
			return
		}
		seen[secret] = true
		r.forms = append(r.forms, formsOf(secret)...)
	}
	// The replacer takes the first form that matches, and a short form may be the beginning of a
	// longer one.
	slices.SortFunc(r.forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	r.forms = slices.Compact(r.forms)
	pairs := make([]string, 0, 2*len(r.forms))
	for _, form := range r.forms {
		pairs = append(pairs, form, strings.Repeat("\x00", len(form)))
	}
	r.blank = strings.NewReplacer(pairs...)
}

// mask replaces the secrets in a text, except within public names.
func (r *Redactor) mask(text string) string {
	blanked := r.blank.Replace(text)
	if blanked == text {
		return text
	}
	var public []string
	if r.public != nil {
		public = r.public()
	}
	var masked strings.Builder
	for at := 0; at < len(text); {
		end := at + 1
		for end < len(text) && (blanked[end] == 0) == (blanked[at] == 0) {
			end++
		}
		if part := text[at:end]; blanked[at] != 0 || isWithin(public, text, at, end) {
			masked.WriteString(part)
		} else {
			masked.WriteString(Mark)
		}
		at = end
	}
	return masked.String()
}

// isWithin reports whether text[from:to] lies within one of the names.
func isWithin(names []string, text string, from, to int) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return len(name) >= to-from && strings.Contains(text[max(0, to-len(name)):min(len(text), from+len(name))], name)
	})
}

// Withholding returns a Redactor that replaces every text by a sentence that ends in why. It is for
// secrets that are not known.
func Withholding(why string) *Redactor {
	return &Redactor{withheld: withheld(why)}
}

func withheld(why string) string {
	return "the detail is left out, because it could show values from Secrets: " + why
}

// Text returns text in one line, without secrets. A text of more than [MaxTextBytes] is cut before
// it is searched; the beginning of a secret at the cut is removed too.
func (r *Redactor) Text(text string) string {
	if text == "" {
		return ""
	}
	r.prepare.Do(r.init)
	if r.withheld != "" {
		return r.withheld
	}
	kept, isCut := message.Beginning(text, MaxTextBytes)
	if isCut {
		var ok bool
		if kept, ok = r.trimPartialSecrets(kept); !ok {
			return withheld(tooManyBeginnings)
		}
	}
	kept = message.JoinLines(r.mask(kept))
	if isCut {
		kept += message.Ellipsis
	}
	return kept
}

// Error returns an error with the text that [Redactor.Text] makes of the text of err. The result
// wraps err.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := r.Text(text); shown != text {
		return &redactedError{text: shown, err: err}
	}
	return err
}

// Text removes secrets from one text, see [Redactor.Text].
func Text(secrets []string, text string) string { return New(secrets).Text(text) }

// Error removes secrets from the text of one error, see [Redactor.Error].
func Error(secrets []string, err error) error { return New(secrets).Error(err) }

// trimPartialSecrets removes the beginning of a secret from the end of a text that was cut. The
// rest may end in the beginning of another secret. After maxBeginnings of them it gives up and
// returns false.
func (r *Redactor) trimPartialSecrets(text string) (kept string, ok bool) {
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

// overlap returns the length of the longest end of text that is a beginning of form.
func overlap(text, form string) int {
	for length := min(len(text), len(form)); length > 0; length-- {
		if text[len(text)-length] == form[0] && strings.HasSuffix(text, form[:length]) {
			return length
		}
	}
	return 0
}

// formsOf returns the ways in which a text may write a secret: plain, quoted by Go, by JSON and by
// the validation of the chart's schema, as a part of a path, and in the base64 of a Secret. Only
// the beginning of a long secret fits a text.
func formsOf(secret string) []string {
	encoding := base64.StdEncoding
	if len(secret) > MaxTextBytes {
		secret = secret[:MaxTextBytes/3*3]
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

// NumberForms returns the ways in which a text may write a number of a Secret, which are secrets
// too: plain, as Go formats value, and in groups of three digits, as the validation of the chart's
// schema does.
func NumberForms(plain string, value float64) []string {
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

// redactedError is an error with another text.
type redactedError struct {
	text string
	err  error
}

// Error implements error.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the original error, for matching only: its text may have secrets.
func (e *redactedError) Unwrap() error { return e.err }
