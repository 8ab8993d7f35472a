// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// redacted stands where a secret was.
const redacted = "REDACTED"

// minSecretLength is the length in bytes from which a text can be a secret.
// Shorter ones are parts of ordinary words, and are guessed at once anyhow.
const minSecretLength = 4

// redact takes secrets out of a text, in case somebody's message repeats them.
// The long ones go first, since a short one may be a part of them.
func redact(secrets []string, text string) string {
	if len(secrets) == 0 {
		return text
	}
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= minSecretLength {
			forms = append(forms, formsOf(secret)...)
		}
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, redacted)
	}
	return text
}

// formsOf are the ways in which a message may write a secret: plain, quoted as Go
// and as JSON do it, and as a Secret holds it.
func formsOf(secret string) []string {
	forms := []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), unquoted(strconv.Quote(secret))}
	if encoded, err := json.Marshal(secret); err == nil {
		forms = append(forms, unquoted(string(encoded)))
	}
	return forms
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

func redactError(secrets []string, err error) error {
	text := redact(secrets, err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}
