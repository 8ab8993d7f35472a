// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect has the assertions of unit tests.
package expect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// NoError ends the test if err is not nil. Use it for the steps that a test needs to go on.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal reports the difference between two values, which have to be of one type. The test goes on.
func Equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Contains reports the parts that a text lacks. The test goes on.
func Contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s is %q, without %q", what, text, part)
		}
	}
}
