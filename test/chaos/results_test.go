// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers of disturbed runs into docs/reliability.md")

// results are those of the tests that ran, by test.
var results = struct {
	sync.Mutex
	of map[string]result
}{of: map[string]result{}}

// count counts disturbed runs when the test ends. If the test failed, all of them count as failed.
func count(t *testing.T, runs int) {
	t.Helper()
	t.Cleanup(func() {
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

// writeResults writes the results into the page.
func writeResults() error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(withResults(string(text), results.of)), 0o644)
}
