// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// buildBinary compiles a small program for Linux.
func buildBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestPack(t *testing.T) {
	binary := buildBinary(t)
	output := filepath.Join(t.TempDir(), "image.tar")
	digest, err := pack(binary, "program:dev", output)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(output, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("platform %s/%s", config.OS, config.Architecture)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/program" || config.Config.User != user {
		t.Errorf("entrypoint %q, user %q", got, config.Config.User)
	}
	files := mutate.Extract(image)
	defer files.Close()
	header, err := tar.NewReader(files).Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "program" || header.Mode != 0o555 {
		t.Errorf("file %s with mode %o", header.Name, header.Mode)
	}

	again, err := pack(binary, "program:dev", filepath.Join(t.TempDir(), "again.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if again != digest {
		t.Errorf("the same binary gave %s and %s", digest, again)
	}
}

func TestPackRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, binary, reference, message string }{
		{"a bad tag", text, "Bad Tag", "tag:"},
		{"a missing file", "nothing-here", "a:b", "read the binary"},
		{"a script", text, "a:b", "not a Linux binary"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "image.tar")
			if _, err := pack(test.binary, test.reference, output); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got error %v, want one with %q", err, test.message)
			}
			if _, err := os.Stat(output); err == nil {
				t.Error("a file was written")
			}
		})
	}
}
