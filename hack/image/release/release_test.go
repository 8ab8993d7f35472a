// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/hack/image/pack"
	"github.com/example/demoapp-controller/hack/image/program"
)

// root is the root of the repository.
const root = "../../.."

// newRelease returns a release of the binaries of a new clone, with the manifest and the chart of this repository.
func newRelease(t *testing.T, repository string) release {
	t.Helper()
	dir := t.TempDir()
	r := release{
		version: "v1.2.3", repository: "registry.example.com/demoapp-controller",
		binaries: program.Build(t, program.Clone(t, repository), "amd64", "arm64"),
		image:    filepath.Join(dir, "image"), output: filepath.Join(dir, "release"),
		manifest: root + "/artifacts/install.yaml", chart: root + "/artifacts/chart/demoapp-controller",
	}
	bundle, err := pack.Build(r.version, r.binaries...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Write(r.image, "demoapp-controller:v1.2.3"); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRelease(t *testing.T) {
	r := newRelease(t, program.NewRepository(t))
	digest := strings.TrimSpace(read(t, filepath.Join(r.image, "digest")))

	if err := r.write(); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(r.output)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{
		"checksums.txt",
		"demoapp-controller-1.2.3.tgz",
		"demoapp-controller-v1.2.3-image-linux-amd64.spdx.json",
		"demoapp-controller-v1.2.3-image-linux-arm64.spdx.json",
		"demoapp-controller-v1.2.3-image.tar",
		"demoapp-controller-v1.2.3-linux-amd64",
		"demoapp-controller-v1.2.3-linux-amd64.spdx.json",
		"demoapp-controller-v1.2.3-linux-arm64",
		"demoapp-controller-v1.2.3-linux-arm64.spdx.json",
		"image-digest.txt",
		"install.yaml",
	}
	slices.Sort(want) // A fork has another name.
	if !slices.Equal(names, want) {
		t.Errorf("files = %q, want %q", names, want)
	}
	reference := "registry.example.com/demoapp-controller:v1.2.3@" + digest
	if got := read(t, filepath.Join(r.output, "image-digest.txt")); got != reference+"\n" {
		t.Errorf("image-digest.txt = %q", got)
	}
	installed := read(t, filepath.Join(r.output, "install.yaml"))
	if strings.Count(installed, " image: "+reference+"\n") != 1 || strings.Contains(installed, "demoapp-controller:dev") {
		t.Errorf("install.yaml does not name the image %s, and no other", reference)
	}
	checked := program.Command(t, r.output, nil, "sha256sum", "--check", "--strict", "checksums.txt")
	if got := strings.Count(checked, ": OK\n"); got != len(want)-1 {
		t.Errorf("checksums.txt has %d of %d files", got, len(want)-1)
	}
}

// The packaged chart differs from that of the repository only in the lines that name the version and the image.
func TestPackagedChart(t *testing.T) {
	r := newRelease(t, program.NewRepository(t))
	digest := strings.TrimSpace(read(t, filepath.Join(r.image, "digest")))

	if err := r.write(); err != nil {
		t.Fatal(err)
	}

	got := unpack(t, filepath.Join(r.output, "demoapp-controller-1.2.3.tgz"))
	var changed []string
	for name, content := range got {
		before := strings.Split(read(t, filepath.Join(filepath.Dir(r.chart), name)), "\n")
		after := strings.Split(content, "\n")
		if len(before) != len(after) {
			t.Errorf("%s has %d lines, want %d", name, len(after), len(before))
			continue
		}
		for i, line := range after {
			if line != before[i] {
				changed = append(changed, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(changed)
	want := []string{
		"appVersion: v1.2.3", "digest: " + digest, "repository: registry.example.com/demoapp-controller", "version: 1.2.3",
	}
	if !slices.Equal(changed, want) {
		t.Errorf("changed lines are %q, want %q", changed, want)
	}
	if want := filesIn(t, r.chart); len(got) != want {
		t.Errorf("%d files, want %d", len(got), want)
	}
}

// filesIn returns the number of files of a directory.
func filesIn(t *testing.T, dir string) int {
	t.Helper()
	count := 0
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			count++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestSameCommitGivesSameChecksums(t *testing.T) {
	repository := program.NewRepository(t)
	first, second := newRelease(t, repository), newRelease(t, repository)

	if err := errors.Join(first.write(), second.write()); err != nil {
		t.Fatal(err)
	}

	got, want := read(t, filepath.Join(second.output, "checksums.txt")), read(t, filepath.Join(first.output, "checksums.txt"))
	if got != want {
		t.Errorf("two releases of one commit have the checksums\n%s\nand\n%s", want, got)
	}
}

func TestReleaseRefuses(t *testing.T) {
	repository := program.NewRepository(t)
	clone := program.Clone(t, repository)
	if err := os.WriteFile(filepath.Join(clone, "new.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := program.Build(t, clone, "amd64")[0]
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("image: other:dev\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		change  func(*release)
		message string
	}{
		{"no version", func(r *release) { r.version = "" }, "is not of the form v1.2.3"},
		{"a version without v", func(r *release) { r.version = "1.2.3" }, "is not of the form v1.2.3"},
		{"a short version", func(r *release) { r.version = "v1.2" }, "is not of the form v1.2.3"},
		{"no binaries", func(r *release) { r.binaries = nil }, "no binaries"},
		{"uncommitted changes", func(r *release) { r.binaries = []string{modified} }, "has uncommitted changes"},
		{"one platform twice", func(r *release) { r.binaries[1] = r.binaries[0] }, "is the second binary for linux-amd64"},
		{"no image", func(r *release) { r.image = other }, "read the image"},
		{"no manifest", func(r *release) { r.manifest += ".absent" }, "read the manifest"},
		{"a manifest of another image", func(r *release) { r.manifest = other }, "has no line with the image"},
		{"no chart", func(r *release) { r.chart += "/absent" }, "chart "},
		{"a chart without values", func(r *release) { r.chart += "/templates" }, "Chart.yaml: does not exist"},
	}
	valid := newRelease(t, repository)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := valid
			r.binaries = slices.Clone(valid.binaries)
			test.change(&r)

			err := r.write()

			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error = %v, want one with %q", err, test.message)
			}
			if _, err := os.Stat(r.output); err == nil {
				t.Error("files were written")
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := gzip.NewReader(bytes.NewReader([]byte(read(t, file))))
	if err != nil {
		t.Fatal(err)
	}
	archive, files := tar.NewReader(content), map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}
