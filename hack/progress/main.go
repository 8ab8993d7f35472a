// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command progress runs "go test" and says at intervals how far it is: how many packages are compiled, then how many are
// tested, and about how many minutes are left. Without it, a first run prints nothing while it compiles.
//
//	progress -name 'unit tests' BUILD FLAGS -- TEST FLAGS ./PACKAGES
//
// Build flags are those that "go build" knows, too, for example -race or -tags. The packages are the last arguments, and begin
// with "./". Go test's output and exit code are passed on.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// interval is the time between two messages.
const interval = 30 * time.Second

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code of go test, or 2 for wrong arguments.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tests, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 2
	}
	err = tests.all(ctx, os.Stdout, os.Stderr)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		return failed.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 1
	}
}

// testRun is one run of go test.
type testRun struct {
	name                   string
	build, tests, packages []string
	interval               time.Duration
}

// parse reads the arguments of the command.
func parse(args []string) (testRun, error) {
	run := testRun{name: "tests", interval: interval}
	if len(args) >= 2 && args[0] == "-name" {
		run.name, args = args[1], args[2:]
	}
	end, first := slices.Index(args, "--"), len(args)
	for first > end+1 && strings.HasPrefix(args[first-1], "./") {
		first--
	}
	if end < 0 || first == len(args) {
		return testRun{}, errors.New("usage: progress [-name NAME] BUILD FLAGS -- TEST FLAGS ./PACKAGES")
	}
	run.build, run.tests, run.packages = args[:end], args[end+1:first], args[first:]
	return run, nil
}

// all compiles the imports of the tests, and runs the tests.
func (r testRun) all(ctx context.Context, stdout, stderr io.Writer) error {
	if err := r.compile(ctx, stderr); err != nil {
		return err
	}
	tested, err := r.list(ctx, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}")
	if err != nil {
		return err
	}
	results := &counter{counts: isResult, to: stdout}
	defer r.report(stderr, "tested", results, len(tested))()
	return r.command(ctx, results, stderr, slices.Concat([]string{"test"}, r.build, r.tests, r.packages)).Run()
}

// compile compiles the packages that the tests import. The tests themselves are compiled by go test.
func (r testRun) compile(ctx context.Context, stderr io.Writer) error {
	const imported = "{{if and .Stale (not .ForTest) (ne .Name \"main\")}}{{.ImportPath}}{{end}}"
	stale, err := r.list(ctx, "-test", "-deps", "-f", imported)
	if err != nil || len(stale) == 0 {
		return err
	}
	compiled := &counter{counts: func(string) bool { return true }, to: io.Discard}
	defer r.report(stderr, "compiled", compiled, len(stale))()
	var messages bytes.Buffer
	if err := r.command(ctx, io.Discard, io.MultiWriter(compiled, &messages), slices.Concat([]string{"build"}, r.build, []string{"-v"}, stale)).Run(); err != nil {
		return fmt.Errorf("compile: %w\n%s", err, messages.Bytes())
	}
	return nil
}

// list returns the lines that go list prints.
func (r testRun) list(ctx context.Context, args ...string) ([]string, error) {
	var lines, messages bytes.Buffer
	if err := r.command(ctx, &lines, &messages, slices.Concat([]string{"list"}, r.build, args, r.packages)).Run(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, messages.Bytes())
	}
	return strings.Fields(lines.String()), nil
}

func (testRun) command(ctx context.Context, stdout, stderr io.Writer, args []string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // The caller chooses the arguments, as of go itself.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Stdout, command.Stderr = stdout, stderr
	return command
}

// report prints how many of total packages are done, at intervals, until the returned function is called.
func (r testRun) report(to io.Writer, done string, counted *counter, total int) (stop func()) {
	begin, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(r.interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintf(to, "# %s: %s\n", r.name, progress(time.Since(begin), done, int(counted.lines.Load()), total))
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// progress says how many of total packages are done. The minutes left suppose that each package takes as long as those before.
func progress(took time.Duration, done string, count, total int) string {
	text := fmt.Sprintf("%s, %s %d of %d packages", took.Round(time.Second), done, min(count, total), total)
	if count == 0 || count >= total {
		return text
	}
	left := took * time.Duration(total-count) / time.Duration(count)
	return fmt.Sprintf("%s, about %d min left", text, (left+time.Minute-1)/time.Minute)
}

// isResult reports whether a line of go test is the result of a package with tests.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")
}

// counter counts lines, and writes them on.
type counter struct {
	counts func(line string) bool
	to     io.Writer
	lines  atomic.Int64
	part   []byte
}

// Write implements io.Writer.
func (c *counter) Write(text []byte) (int, error) {
	for _, b := range text {
		if b != '\n' {
			c.part = append(c.part, b)
			continue
		}
		if c.counts(string(c.part)) {
			c.lines.Add(1)
		}
		c.part = c.part[:0]
	}
	return c.to.Write(text)
}
