// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/hack/image/pack"
	"github.com/example/demoapp-controller/hack/image/program"
)

const manifest = `apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: controller
          image: demoapp-controller:dev
`

// newRelease returns a release of the binaries of a new clone, with a small chart and manifest.
func newRelease(t *testing.T, repository string) release {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"install.yaml":              manifest,
		"chart/Chart.yaml":          "apiVersion: v2\nname: demoapp-controller\n# A comment.\nversion: 0.1.0\nappVersion: dev\n",
		"chart/values.yaml":         "image:\n  # The repository.\n  repository: demoapp-controller\n  tag: \"\"\n",
		"chart/templates/a.yaml":    "kind: A\n",
		"chart/files/rbac/all.yaml": "rules: []\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := release{
		version: "v1.2.3", repository: "registry.example.com/demoapp-controller",
		binaries: program.Build(t, program.Clone(t, repository), "amd64", "arm64"),
		image:    filepath.Join(dir, "image"), manifest: filepath.Join(dir, "install.yaml"), chart: filepath.Join(dir, "chart"),
		output: filepath.Join(dir, "release"),
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
	if !slices.Equal(names, want) {
		t.Errorf("files = %q, want %q", names, want)
	}
	reference := "registry.example.com/demoapp-controller:v1.2.3@" + digest
	if got := read(t, filepath.Join(r.output, "image-digest.txt")); got != reference+"\n" {
		t.Errorf("image-digest.txt = %q", got)
	}
	if got := read(t, filepath.Join(r.output, "install.yaml")); !strings.Contains(got, "          image: "+reference+"\n") {
		t.Errorf("install.yaml = %s", got)
	}
	checked := program.Command(t, r.output, nil, "sha256sum", "--check", "--strict", "checksums.txt")
	if got := strings.Count(checked, ": OK\n"); got != len(want)-1 {
		t.Errorf("checksums.txt has %d of %d files", got, len(want)-1)
	}
}

func TestPackagedChart(t *testing.T) {
	r := newRelease(t, program.NewRepository(t))

	if err := r.write(); err != nil {
		t.Fatal(err)
	}

	got := unpack(t, filepath.Join(r.output, "demoapp-controller-1.2.3.tgz"))
	for name, want := range map[string]string{
		"demoapp-controller/Chart.yaml": "apiVersion: v2\nname: demoapp-controller\n# A comment.\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"demoapp-controller/values.yaml": "image:\n  # The repository.\n  repository: registry.example.com/demoapp-controller\n" +
			"  tag: \"\"\n",
		"demoapp-controller/templates/a.yaml":    "kind: A\n",
		"demoapp-controller/files/rbac/all.yaml": "rules: []\n",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d files, want 4", len(got))
	}
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

// The release edits lines of files that are written elsewhere.
func TestReleaseOfThisRepository(t *testing.T) {
	r := newRelease(t, program.NewRepository(t))
	r.manifest, r.chart = "../../../artifacts/install.yaml", "../../../artifacts/chart/demoapp-controller"

	if err := r.write(); err != nil {
		t.Fatal(err)
	}

	if got := read(t, filepath.Join(r.output, "install.yaml")); strings.Contains(got, "demoapp-controller:dev") {
		t.Error("install.yaml names the image of development")
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
