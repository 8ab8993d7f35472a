// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program builds a small program for tests. Its binaries have the same stamps as those of the operator, and are
// built in a moment.
package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// CommitTime is the time of the commit of NewRepository.
const CommitTime = "2026-01-02T03:04:05Z"

// NewRepository returns a repository with one commit of a program without dependencies.
func NewRepository(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.com/program\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Command(t, dir, nil, "git", "init", "--quiet")
	Command(t, dir, nil, "git", "add", ".")
	Command(t, dir, []string{"GIT_AUTHOR_DATE=" + CommitTime, "GIT_COMMITTER_DATE=" + CommitTime},
		"git", "-c", "user.name=Author", "-c", "user.email=author@example.com", "-c", "commit.gpgsign=false",
		"commit", "--quiet", "--message", "Add a program")
	return dir
}

// Clone clones a repository into a new directory.
func Clone(t testing.TB, repository string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	Command(t, ".", nil, "git", "clone", "--quiet", repository, dir)
	return dir
}

// Build compiles the program of a repository for Linux and returns the paths of the binaries, one per architecture.
func Build(t testing.TB, repository string, architectures ...string) []string {
	t.Helper()
	binaries := make([]string, 0, len(architectures))
	for _, architecture := range architectures {
		binary := filepath.Join(t.TempDir(), "program")
		Command(t, repository, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + architecture},
			"go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, ".")
		binaries = append(binaries, binary)
	}
	return binaries
}

// Command runs a command and returns its output.
func Command(t testing.TB, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}
