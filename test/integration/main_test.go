// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/controller/controllertest/passlog"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// parallel is the number of parallel tests, unless -parallel is given. Tests mostly wait, so the
// number can exceed the number of processors.
const parallel = "8"

// verbosity is the highest level of the operator's own lines. At level 7, client-go also logs each
// request, which package secrets searches.
const verbosity = "-v=4"

// quiet is how long an operator without work is silent. Pods become ready, and delayed status
// updates are written, in less time.
const quiet = 2 * time.Second

// memcachedFile is the watches file of the hybrid example. The kind waits until a test installs its
// CRD.
const memcachedFile = "--watches-file=artifacts/kinds/memcached/watches.yaml"

// The tests share a control plane and an operator that watches all namespaces.
var (
	shared   *cluster.Cluster
	operator *cluster.Operator
	// workDir has the binaries that tests build.
	workDir string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	t := &cluster.MainTest{}
	defer t.CleanUp()
	if !isGiven("test.parallel") {
		if err := flag.Set("test.parallel", parallel); err != nil {
			t.Fatal(err)
		}
	}
	shared = t.Start(cluster.Options{Audit: true, KeepNamespaces: true})
	workDir = t.TempDir()
	operator = cluster.StartOperator(t.Context(), t, shared, verbosity, "--logging-format=json", memcachedFile, cleanupHook(t))
	code := m.Run()
	return t.End(max(code, checkPermissions(t.Context(), code == 0 && wholePackage()), checkLog()))
}

// checkLog ends the operator and returns 1 if a line of its log lacks a field of its pass.
func checkLog() (code int) {
	operator.Stop()
	problems, _ := passlog.Problems(operator.Log())
	for _, problem := range problems[:min(len(problems), 20)] {
		fmt.Fprintln(os.Stderr, "log of the operator:", problem)
		code = 1
	}
	return code
}

// wholePackage reports whether all tests of the package are run.
func wholePackage() bool {
	return !isGiven("test.run") && !isGiven("test.skip") && !isGiven("test.list")
}

func isGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// newNamespace creates a test's namespace. A failed test shows the operator's log for the
// namespace.
func newNamespace(t *testing.T) *apps.Namespace {
	t.Helper()
	ns := apps.New(t, shared)
	showLogOnFailure(t, ns.Name)
	return ns
}

func showLogOnFailure(t *testing.T, namespace string) {
	t.Helper()
	// The full log has more about each request than is useful.
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
		t.Logf("the operator's log for the namespace (%d lines, at most %d shown):\n%s", len(lines), mostLines, text.String())
	})
}
