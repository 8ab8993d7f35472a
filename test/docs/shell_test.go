// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestShellKeepsItsState(t *testing.T) {
	bash, err := startShell(t.TempDir(), t.TempDir(), "GIVEN=yes")
	if err != nil {
		t.Fatal(err)
	}
	defer bash.close()
	tests := []struct {
		command, output string
		code            int
	}{
		{"export NAME=value   # a comment", "", 0},
		{"echo $NAME $GIVEN", "value yes", 0},
		{"echo both \\\n  lines", "both lines", 0},
		{"echo problem >&2; false", "problem", 1},
		{"cat", "", 0},
		{"sleep 60 &", "", 0},
		{"kill $! && wait $!", "", 143},
	}
	for _, test := range tests {
		output, code, err := bash.run(t.Context(), test.command)
		if err != nil || output != test.output || code != test.code {
			t.Errorf("%s: printed %q with exit code %d, error %v", test.command, output, code, err)
		}
	}
}

func TestShellEndsWithItsContext(t *testing.T) {
	bash, err := startShell(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer bash.close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, _, err = bash.run(ctx, "sleep 60")

	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("error = %v", err)
	}
}
