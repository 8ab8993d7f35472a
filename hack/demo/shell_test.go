// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
)

func TestShellRun(t *testing.T) {
	tests := map[string]struct {
		command, want, wantErr string
	}{
		"both outputs, in the environment given": {command: `echo "$GREETING"; echo err >&2`, want: "hi\nerr\n"},
		"a pipe":                                 {command: "echo one | tr a-z A-Z", want: "ONE\n"},
		"an exit code":                           {command: "echo no; exit 3", want: "no\n", wantErr: "it ended with exit status 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := posixShell{env: []string{"GREETING=hi", "PATH=/usr/bin:/bin"}}.run(t.Context(), test.command)
			if got != test.want || message(err) != test.wantErr {
				t.Errorf("output %q, error %q; want %q, %q", got, message(err), test.want, test.wantErr)
			}
		})
	}
}

// TestShellStreamEndsWithItsContext asserts that the channel is closed only after the process has ended.
func TestShellStreamEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// "tail -f" never ends by itself.
	lines, err := posixShell{env: []string{"PATH=/usr/bin:/bin"}}.stream(ctx, "echo one; echo two; tail -f /dev/null")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, want := range []string{"one", "two"} {
		l, open := <-lines
		if !open || l.text != want || l.at.IsZero() {
			t.Fatalf("line %+v, open %t; want %q", l, open, want)
		}
		got = append(got, l.text)
	}
	cancel()
	if l, open := <-lines; open {
		t.Errorf("after %s: another line %+v", strings.Join(got, ", "), l)
	}
}

func TestShellStreamThatEndsByItself(t *testing.T) {
	lines, err := posixShell{env: []string{"PATH=/usr/bin:/bin"}}.stream(t.Context(), "echo gone >&2; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for l := range lines {
		got = append(got, l.text)
	}
	if strings.Join(got, ";") != "gone" {
		t.Errorf("lines %q", got)
	}
}
