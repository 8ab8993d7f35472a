// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"errors"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers of disturbed runs into docs/reliability.md")

// results are the results of the tests that ran, by test.
var results = struct {
	sync.Mutex
	of map[string]result
}{of: map[string]result{}}

// checkUpdate returns an error if only a part of some tests would write its results.
func checkUpdate() error {
	if *update && (testing.Short() || strings.Contains(flag.Lookup("test.run").Value.String(), "/")) {
		return errors.New("-update needs whole tests: neither -short nor a subtest in -run")
	}
	return nil
}

// count counts disturbed runs when the test ends. If the test failed, all of them count as failed.
func count(t *testing.T, runs int) {
	t.Helper()
	countThat(t, func() int { return runs })
}

// countMet counts the run in a namespace if so many of its requests met the fault: a run can send
// fewer requests than the undisturbed one.
func countMet(t *testing.T, namespace string, times int) {
	t.Helper()
	countThat(t, func() int {
		if met := sabotage.met(namespace); met < times && !t.Failed() {
			t.Logf("does not count: %d requests met the fault, want %d", met, times)
			return 0
		}
		return 1
	})
}

func countThat(t *testing.T, counted func() int) {
	t.Helper()
	t.Cleanup(func() {
		runs := counted()
		name, _, _ := strings.Cut(t.Name(), "/")
		results.Lock()
		defer results.Unlock()
		came := results.of[name]
		came.runs += runs
		if t.Failed() {
			came.failed += runs
		}
		results.of[name] = came
	})
}

// writeResults writes the results into the page. After a failure outside of the runs, the numbers
// of no test are certain.
func writeResults(passed bool) error {
	failed := 0
	for _, came := range results.of {
		failed += came.failed
	}
	if !passed && failed == 0 {
		return errors.New("no results are written: a test failed, but none of its runs")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(withResults(string(text), results.of)), 0o644)
}
