// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func newLog(t *testing.T) *os.File {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() }) // The operator may have closed it.
	return log
}

func TestProcessStops(t *testing.T) {
	crashed := func(err error) { t.Errorf("crashed: %v", err) }
	// "tail -f" never ends by itself.
	p, err := startProcess(t.Context(), newLog(t), crashed, "tail", "-f", "/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-p.ended:
	default:
		t.Error("it still runs")
	}
}

func TestProcessThatEndsByItself(t *testing.T) {
	for command, want := range map[string]string{
		"exit 3": "the operator ended by itself: exit status 3",
		"exit 0": "the operator ended by itself: exit status 0",
	} {
		t.Run(command, func(t *testing.T) {
			crashes := make(chan error, 1)
			p, err := startProcess(t.Context(), newLog(t), func(err error) { crashes <- err }, "sh", "-c", command)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-crashes; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestProcessThatDoesNotStart(t *testing.T) {
	if _, err := startProcess(t.Context(), newLog(t), nil, filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("no error")
	}
}
