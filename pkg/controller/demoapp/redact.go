// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/base64"
	"strings"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// redacted stands where a secret was.
const redacted = "REDACTED"

// redact takes the app's key out of a text, in case somebody's message repeats
// it, plain or as a Secret holds it.
func redact(app *v1alpha1.DemoApp, text string) string {
	return redactKey(app.Spec.APIKey, text)
}

func redactKey(key, text string) string {
	if key == "" {
		return text
	}
	text = strings.ReplaceAll(text, key, redacted)
	return strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(key)), redacted)
}

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
	text := redactKey(key, err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}
