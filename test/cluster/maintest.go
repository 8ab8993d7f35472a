// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// MainTest implements the part of testing.TB that TestMain, or a program, needs to start a control
// plane and an operator. A fatal error also shows the operator's log. The zero value is ready to
// use. Call End, or CleanUp, at the end.
type MainTest struct {
	testing.TB

	cleanups []func()
	// code is 1 if a control plane did not stop.
	code   int
	failed bool
}

// Start starts a control plane, which the cleanup stops.
func (t *MainTest) Start(options Options) *Cluster {
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Log(err)
			t.code = 1
		}
	})
	return c
}

// End runs the cleanups and returns the exit code for os.Exit. code is the least exit code.
func (t *MainTest) End(code int) int {
	t.CleanUp()
	return max(code, t.code)
}

// Context implements testing.TB.
func (*MainTest) Context() context.Context {
	return context.Background()
}

// Helper implements testing.TB.
func (*MainTest) Helper() {}

// Failed implements testing.TB.
func (t *MainTest) Failed() bool { return t.failed }

// Log implements testing.TB.
func (*MainTest) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (*MainTest) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements testing.TB.
func (t *MainTest) Fatal(args ...any) {
	t.failed = true
	t.Log(args...)
	t.CleanUp()
	os.Exit(1)
}

// Fatalf implements testing.TB.
func (t *MainTest) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// TempDir implements testing.TB.
func (t *MainTest) TempDir() string {
	dir, err := os.MkdirTemp("", "demoapp-integration-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	return dir
}

// Cleanup implements testing.TB.
func (t *MainTest) Cleanup(cleanup func()) { t.cleanups = append(t.cleanups, cleanup) }

// CleanUp runs the cleanups, the last one first.
func (t *MainTest) CleanUp() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		cleanup := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		cleanup()
	}
}
