// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// redacted stands where a secret was.
const redacted = "REDACTED"

// redact takes a key out of a text, in case somebody's message repeats it. An
// empty key is none.
func redact(key, text string) string {
	if key == "" {
		return text
	}
	for _, form := range formsOf(key) {
		text = strings.ReplaceAll(text, form, redacted)
	}
	return text
}

// formsOf are the ways in which a message may write a key: plain, quoted as Go
// and as JSON do it, and as a Secret holds it.
func formsOf(key string) []string {
	forms := []string{key, base64.StdEncoding.EncodeToString([]byte(key)), unquoted(strconv.Quote(key))}
	if encoded, err := json.Marshal(key); err == nil {
		forms = append(forms, unquoted(string(encoded)))
	}
	return forms
}

func unquoted(text string) string { return text[1 : len(text)-1] }

// redactedError is an error whose text does not show the key. It still matches
// what it wraps.
type redactedError struct {
	text string
	err  error
}

// Error implements error.
func (e *redactedError) Error() string { return e.text }

// Unwrap returns the error as it was, for matching, not for printing.
func (e *redactedError) Unwrap() error { return e.err }

func redactError(key string, err error) error {
	text := redact(key, err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}
