// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// parallel is how many tests run at the same time unless -parallel says otherwise. They mostly wait, so more of them
// than there are processors can run.
const parallel = "8"

// verbosity is the highest that the operator takes: what it logs then is searched for secrets.
const verbosity = "-v=7"

// quiet is how long the operator has to be silent to be taken for done. Pods become ready, and a status about them is
// held back, in less than that.
const quiet = 2 * time.Second

// All tests share a control plane, and an operator on it that watches all namespaces.
var (
	shared   *cluster.Cluster
	operator *cluster.Operator
	// workDir holds what is built for the tests.
	workDir string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	t := &mainTest{}
	defer t.cleanUp()
	if !isGiven("test.parallel") {
		if err := flag.Set("test.parallel", parallel); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if shared, err = cluster.Start(t.Context(), cluster.Options{Audit: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Stop(); err != nil {
			t.Log(err)
			code = max(code, 1)
		}
	})
	workDir = t.TempDir()
	operator = cluster.StartOperator(t.Context(), t, shared, verbosity)
	code = m.Run()
	return max(code, checkPermissions(t.Context(), code == 0 && wholePackage()))
}

// wholePackage reports whether all tests of the package ran.
func wholePackage() bool {
	return !isGiven("test.run") && !isGiven("test.skip") && !isGiven("test.list") && !testing.Short()
}

func isGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// newNamespace gives a test its namespace. If the test fails, what the operator logged about it is shown.
func newNamespace(t *testing.T) *apps.Namespace {
	t.Helper()
	ns := apps.New(t, shared)
	showLogOnFailure(t, ns.Name)
	return ns
}

func showLogOnFailure(t *testing.T, namespace string) {
	t.Helper()
	// The log has more about each request than helps.
	const mostLines, mostColumns = 100, 300
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		lines := slices.Collect(strings.Lines(operator.Log()))
		lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, namespace) })
		var text strings.Builder
		for _, line := range lines[max(0, len(lines)-mostLines):] {
			text.WriteString(strings.TrimSpace(line[:min(len(line), mostColumns)]) + "\n")
		}
		t.Logf("what the operator logged about it (%d lines, at most %d shown):\n%s", len(lines), mostLines, text.String())
	})
}

// mainTest lets TestMain, which is no test, use what is made for tests. Only what it needs is there.
type mainTest struct {
	testing.TB

	cleanups []func()
}

// Context implements testing.TB.
func (*mainTest) Context() context.Context {
	return context.Background()
}

// Helper implements testing.TB.
func (*mainTest) Helper() {}

// Failed implements testing.TB.
func (*mainTest) Failed() bool { return false }

// Log implements testing.TB.
func (*mainTest) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (*mainTest) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements testing.TB.
func (t *mainTest) Fatal(args ...any) {
	t.Log(args...)
	t.cleanUp()
	os.Exit(1)
}

// Fatalf implements testing.TB.
func (t *mainTest) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// TempDir implements testing.TB.
func (t *mainTest) TempDir() string {
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
func (t *mainTest) Cleanup(cleanup func()) { t.cleanups = append(t.cleanups, cleanup) }

func (t *mainTest) cleanUp() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		cleanup := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		cleanup()
	}
}
