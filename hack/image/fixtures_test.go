// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// root is the root of the repository.
const root = "../.."

// commitTime is the time of the commit of newRepository.
const commitTime = "2026-01-02T03:04:05Z"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a command and returns its output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(content)
}

func write(t *testing.T, content string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(file), 0o750))
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

// newRepository returns a repository with one commit of a program without dependencies, which is
// built in a moment.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, "module example.com/program\n\ngo 1.26.0\n", dir, "go.mod")
	write(t, "package main\n\nfunc main() {}\n", dir, "main.go")
	command(t, dir, nil, "git", "init", "--quiet")
	command(t, dir, nil, "git", "add", ".")
	command(t, dir, []string{"GIT_AUTHOR_DATE=" + commitTime, "GIT_COMMITTER_DATE=" + commitTime},
		"git", "-c", "user.name=Author", "-c", "user.email=author@example.com", "-c", "commit.gpgsign=false",
		"commit", "--quiet", "--message", "Add a program")
	return dir
}

// clone clones a repository into a new directory.
func clone(t *testing.T, repository string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	command(t, ".", nil, "git", "clone", "--quiet", repository, dir)
	return dir
}

// build compiles the program of a repository for Linux, with the stamps that the operator has. It
// returns the paths of the binaries, one per architecture.
func build(t *testing.T, repository string, architectures ...string) []string {
	t.Helper()
	binaries := make([]string, 0, len(architectures))
	for _, architecture := range architectures {
		binary := filepath.Join(t.TempDir(), "demoapp-controller")
		command(t, repository, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + architecture},
			"go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, ".")
		binaries = append(binaries, binary)
	}
	return binaries
}

// newImage returns the options of an image with two platforms.
func newImage(t *testing.T, repository string) options {
	t.Helper()
	return options{
		version: "v1.2.3", tag: "registry.example.com/demoapp-controller:v1.2.3", output: filepath.Join(t.TempDir(), "image"),
		binaries: build(t, repository, "amd64", "arm64"),
	}
}

// checkRefuses checks that a command with changed options fails and writes nothing.
func checkRefuses(t *testing.T, o options, change func(*options), run func(options) error, message string) {
	t.Helper()
	o.binaries = slices.Clone(o.binaries)
	change(&o)
	if err := run(o); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("error = %v, want one with %q", err, message)
	}
	if _, err := os.Stat(o.output); err == nil {
		t.Error("files were written")
	}
}

// newRegistry starts a registry and returns its host.
func newRegistry(t *testing.T, referrers bool) string {
	t.Helper()
	server := httptest.NewServer(registry.New(
		registry.WithReferrersSupport(referrers), registry.Logger(log.New(t.Output(), "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// unpack returns the modes and the contents of an archive by name.
func unpack(t *testing.T, archive io.Reader) (modes map[string]int64, contents map[string]string) {
	t.Helper()
	modes, contents = map[string]int64{}, map[string]string{}
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modes, contents
		}
		must(t, err)
		modes[header.Name] = header.Mode
		if header.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(files)
			must(t, err)
			contents[header.Name] = string(content)
		}
	}
}
