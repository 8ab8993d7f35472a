// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldName matches each form of the current names, and their parts: a form that the replacer does
// not know is found, too.
var oldName = regexp.MustCompile(`(?i)demoapp[-_. ]?controller|demo\\*\.example\\*\.com|example/demoapp|demoapp-(system|audit)`)

// keptNames match names that a fork keeps: the labels of release records, and the copyright.
var keptNames = []*regexp.Regexp{
	regexp.MustCompile(`engine\\*\.demo\\*\.example\\*\.com`),
	regexp.MustCompile(`The DemoApp Controller Authors`),
}

// TestRenamedClone renames a clone of the last commit as docs/adding-a-kind.md says, and builds and
// tests it. It compiles all packages of the clone, which takes minutes.
func TestRenamedClone(t *testing.T) {
	root := strings.TrimSpace(command(t, ".", "git", "rev-parse", "--show-toplevel"))
	if module := read(t, root, "go.mod"); !strings.HasPrefix(module, "module "+current.Module+"\n") {
		t.Skip("the tree is renamed already")
	}
	clone := filepath.Join(t.TempDir(), "clone")
	command(t, root, "git", "clone", "--quiet", root, clone)
	config, labels := read(t, clone, ".git/config"), recordLabelsOf(t, clone)
	if len(labels) < 5 {
		t.Fatalf("found only the labels %q of release records", labels)
	}

	command(t, clone, "make", "rename", "MODULE=git.acme.io/team/bridge", "NAME=acme-bridge", "GROUP=apps.acme.io", "NAMESPACE=bridge-system")

	command(t, clone, "git", "add", "--all")
	if renamed := read(t, clone, ".git/config"); renamed != config {
		t.Errorf(".git/config has changed to:\n%s", renamed)
	}
	if renamed := recordLabelsOf(t, clone); !slices.Equal(renamed, labels) {
		t.Errorf("the labels of release records are %q, expected %q", renamed, labels)
	}
	assertNoOldNames(t, clone)
	command(t, clone, "go", "build", "./...")
	command(t, clone, "make", "test-unit", "RACE=", "ARGS=-timeout=30m ./...") // Machines may be busy.
}

// recordLabelsOf returns the labels of release records in the code of the operator.
func recordLabelsOf(t *testing.T, clone string) []string {
	t.Helper()
	found := strings.Fields(command(t, clone, "git", "grep", "--cached", "-hoE", regexp.QuoteMeta(recordLabels)+"/[a-z-]+", "--", "pkg"))
	slices.Sort(found)
	return slices.Compact(found)
}

// assertNoOldNames reads the paths and the text of all files that git tracks, except the files of
// this command.
func assertNoOldNames(t *testing.T, clone string) {
	t.Helper()
	for file := range strings.SplitSeq(strings.TrimRight(command(t, clone, "git", "ls-files", "-z"), "\x00"), "\x00") {
		if strings.HasPrefix(file, ownFolder) {
			continue
		}
		if oldName.MatchString(file) {
			t.Errorf("%s: the path has an old name", file)
		}
		content := read(t, clone, file)
		if strings.ContainsRune(content, 0) {
			continue
		}
		for _, kept := range keptNames {
			content = kept.ReplaceAllString(content, "")
		}
		if old := oldName.FindString(content); old != "" {
			t.Errorf("%s has the old name %q", file, old)
		}
	}
}

// command runs a command in a folder and returns its output. A make that runs this test passes no
// variables on.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), name, args...)
	run.Dir = dir
	run.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "ARGS=")
	})
	var output, errors bytes.Buffer
	run.Stdout, run.Stderr = &output, &errors
	if err := run.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, tail(output.String()), tail(errors.String()))
	}
	return output.String()
}

// tail returns the lines of a long output that do not say that a package is fine, and at most the
// last 200.
func tail(output string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(output)), func(line string) bool {
		return strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "?  ")
	})
	return strings.Join(lines[max(0, len(lines)-200):], "")
}

// read returns the content of a file, or the target of a symbolic link.
func read(t *testing.T, dir, file string) string {
	t.Helper()
	path := filepath.Join(dir, file)
	if target, err := os.Readlink(path); err == nil {
		return target
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
