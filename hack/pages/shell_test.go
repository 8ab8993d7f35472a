// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestShellKeepsItsState(t *testing.T) {
	bash, err := StartShell(t.TempDir(), t.TempDir(), "GIVEN=yes")
	if err != nil {
		t.Fatal(err)
	}
	defer bash.Close()
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
		// A process that is not yet sleep can lose another signal than KILL.
		{"{ kill -KILL $! && wait $!; } 2>/dev/null", "", 137},
	}
	for _, test := range tests {
		output, code, err := bash.Run(t.Context(), test.command)
		if err != nil || output != test.output || code != test.code {
			t.Errorf("%s: printed %q with exit code %d, error %v", test.command, output, code, err)
		}
	}
}

func TestShellIsInterrupted(t *testing.T) {
	bash, err := StartShell(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer bash.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, _, err = bash.Run(ctx, "NAME=value; until false; do sleep 60; done")

	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
	if output, _, err := bash.Run(t.Context(), "echo $NAME"); err != nil || output != "value" {
		t.Errorf("then printed %q, error %v", output, err)
	}
}
