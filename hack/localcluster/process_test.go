// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestIdentity(t *testing.T) {
	self, err := identify("self", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	recycled, noProcess := self, self
	recycled.Started = "0"
	noProcess.PID = 0
	tests := []struct {
		name string
		id   identity
		want bool
	}{
		{name: "self", id: self, want: true},
		{name: "same number, other process", id: recycled},
		{name: "no process", id: noProcess},
		{name: "init", id: identity{PID: 1, Started: self.Started}},
		{name: "zero value", id: identity{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.id.alive(); got != test.want {
				t.Errorf("alive: %t, want %t", got, test.want)
			}
			// A signal to the wrong process would end the test.
			if !test.want {
				if err := test.id.signal(syscall.SIGKILL); err != nil {
					t.Errorf("signal: %v", err)
				}
			}
		})
	}
}

func TestLaunch(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	l := newLauncher()
	defer l.close()

	short, err := l.launch(t.Context(), component{name: "short", args: []string{"-c", "echo said; exit 3"}}, shell, output)
	if err != nil {
		t.Fatal(err)
	}
	<-short.done
	var exit *exec.ExitError
	if !errors.As(short.err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit code 3", short.err)
	}
	if short.alive() {
		t.Error("alive after its end")
	}
	if got := tail(output.Name()); got != "said" {
		t.Errorf("logged %q", got)
	}

	long, err := l.launch(t.Context(), component{name: "long", args: []string{"-c", "exec sleep 600"}}, shell, output)
	if err != nil {
		t.Fatal(err)
	}
	stubborn, err := l.launch(t.Context(), component{name: "stubborn", args: []string{"-c", "kill -STOP $$"}}, shell, output)
	if err != nil {
		t.Fatal(err)
	}
	if err := endAll([]*child{long, stubborn}); err != nil {
		t.Error(err)
	}
	if long.alive() || stubborn.alive() {
		t.Error("alive after endAll")
	}

	if _, err := l.launch(t.Context(), component{name: "missing"}, filepath.Join(t.TempDir(), "missing"), output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("launch of a missing program: %v", err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := tail(path); !strings.Contains(got, path) {
		t.Errorf("a missing file's tail %q does not name it", got)
	}
	line := strings.Repeat("x", 1000)
	content := strings.Repeat(line+"\n", 40) + "the last\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got := tail(path)
	if !strings.HasSuffix(got, "\nthe last") || len(got) > tailBytes || strings.Count(got, "\n") >= tailLines {
		t.Errorf("tail has %d bytes, %d lines", len(got), strings.Count(got, "\n")+1)
	}
}
