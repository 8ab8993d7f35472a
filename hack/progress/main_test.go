// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/expect"
)

func TestArguments(t *testing.T) {
	run, err := parse([]string{"-name", "unit tests", "-race", "--", "-run", "X", "./pkg/...", "./cmd/..."})
	expect.NoError(t, err)
	for what, pair := range map[string][2][]string{
		"build flags": {run.build, {"-race"}}, "test flags": {run.tests, {"-run", "X"}}, "packages": {run.packages, {"./pkg/...", "./cmd/..."}},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s are %q, want %q", what, pair[0], pair[1])
		}
	}
	for _, wrong := range [][]string{nil, {"./pkg/..."}, {"--", "-run", "X"}, {"./pkg/...", "--"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestProgress(t *testing.T) {
	for _, test := range []struct {
		took         time.Duration
		count, total int
		want         string
	}{
		{30 * time.Second, 0, 40, "30s, tested 0 of 40 packages"},
		{time.Minute, 10, 40, "1m0s, tested 10 of 40 packages, about 3 min left"},
		{100 * time.Second, 39, 40, "1m40s, tested 39 of 40 packages, about 1 min left"},
		{2 * time.Minute, 41, 40, "2m0s, tested 40 of 40 packages"},
	} {
		if got := progress(test.took, "tested", test.count, test.total); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestResultsAreCounted also writes lines in parts, as a pipe delivers them.
func TestResultsAreCounted(t *testing.T) {
	var passed bytes.Buffer
	results := &counter{counts: isResult, to: &passed}
	const output = "ok  \texample.com/a\t0.1s\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/b\t0.2s\n?   \texample.com/c\t[no test files]\n"
	for part := range strings.SplitSeq(output, "e") {
		_, err := results.Write([]byte(part + "e"))
		expect.NoError(t, err)
	}
	if got := results.lines.Load(); got != 2 {
		t.Errorf("counted %d results, want 2", got)
	}
	if got := strings.TrimSuffix(passed.String(), "e"); got != output {
		t.Errorf("passed on %q, want %q", got, output)
	}
}
