// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newRelease returns the options of a release of a new clone, with the manifest and the chart of
// this repository.
func newRelease(t *testing.T, repository string) options {
	t.Helper()
	image := newImage(t, clone(t, repository))
	must(t, image.pack())
	return options{
		version: "v1.2.3", repository: "registry.example.com/demoapp-controller", binaries: image.binaries,
		plugins: image.binaries, license: root + "/LICENSE", image: image.output, output: filepath.Join(t.TempDir(), "release"),
		manifest: root + "/artifacts/install.yaml", chart: root + "/artifacts/chart/demoapp-controller",
	}
}

func TestRelease(t *testing.T) {
	repository := newRepository(t)
	o, again := newRelease(t, repository), newRelease(t, repository)
	digest := strings.TrimSpace(read(t, o.image, "digest"))

	must(t, o.release())
	must(t, again.release())

	entries, err := os.ReadDir(o.output)
	must(t, err)
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
		"krew.yaml",
		"kubectl-demoapp-v1.2.3-linux-amd64.spdx.json",
		"kubectl-demoapp-v1.2.3-linux-amd64.tar.gz",
		"kubectl-demoapp-v1.2.3-linux-arm64.spdx.json",
		"kubectl-demoapp-v1.2.3-linux-arm64.tar.gz",
	}
	slices.Sort(want) // A fork has another name.
	if !slices.Equal(names, want) {
		t.Errorf("files = %q, want %q", names, want)
	}
	reference := "registry.example.com/demoapp-controller:v1.2.3@" + digest
	if got := read(t, o.output, "image-digest.txt"); got != reference+"\n" {
		t.Errorf("image-digest.txt = %q", got)
	}
	installed := read(t, o.output, "install.yaml")
	if strings.Count(installed, " image: "+reference+"\n") != 1 || strings.Contains(installed, "demoapp-controller:dev") {
		t.Errorf("install.yaml does not name the image %s, and no other", reference)
	}
	checked := command(t, o.output, nil, "sha256sum", "--check", "--strict", "checksums.txt")
	if got := strings.Count(checked, ": OK\n"); got != len(want)-1 {
		t.Errorf("checksums.txt has %d of %d files", got, len(want)-1)
	}
	if got, want := read(t, again.output, "checksums.txt"), read(t, o.output, "checksums.txt"); got != want {
		t.Errorf("two releases of one commit have the checksums\n%s\nand\n%s", want, got)
	}
	checkChart(t, o, digest)
	checkPlugin(t, o)
}

// checkPlugin checks the archive of a platform, and that the manifest for krew names it.
func checkPlugin(t *testing.T, o options) {
	t.Helper()
	const name = "kubectl-demoapp-v1.2.3-linux-arm64.tar.gz"
	packed := read(t, o.output, name)
	content, err := gzip.NewReader(strings.NewReader(packed))
	must(t, err)
	modes, files := unpack(t, content)
	if files["kubectl_complete-demoapp"] == "" || modes["kubectl_complete-demoapp"] != 0o755 {
		t.Errorf("the archive has no completer, and the modes %v", modes)
	}
	if len(files) != 3 || modes["kubectl-demoapp"] != 0o755 || files["kubectl-demoapp"] != read(t, o.plugins[1]) || files["LICENSE"] == "" {
		t.Errorf("the archive has the modes %v", modes)
	}
	want := fmt.Sprintf(`  - selector: {matchLabels: {os: linux, arch: arm64}}
    uri: https://example.com/program/releases/download/v1.2.3/%s
    sha256: %x
    bin: kubectl-demoapp
`, name, sha256.Sum256([]byte(packed)))
	if manifest := read(t, o.output, "krew.yaml"); !strings.HasSuffix(manifest, want) {
		t.Errorf("krew.yaml does not end with\n%s\nbut is\n%s", want, manifest)
	}
}

// checkChart checks that the packaged chart differs from the chart in the repository only in the
// lines that name the version and the image.
func checkChart(t *testing.T, o options, digest string) {
	t.Helper()
	source, err := readTree(o.chart, "demoapp-controller")
	must(t, err)
	packed, err := os.Open(filepath.Join(o.output, "demoapp-controller-1.2.3.tgz"))
	must(t, err)
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	must(t, err)
	_, files := unpack(t, content)
	if len(files) != len(source) {
		t.Errorf("%d files, want %d", len(files), len(source))
	}
	var changed []string
	for name, file := range source {
		before, after := strings.Split(string(file.Data), "\n"), strings.Split(files[name], "\n")
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
}

func TestReleaseRefuses(t *testing.T) {
	repository := newRepository(t)
	valid := newRelease(t, repository)
	write(t, "package main\n", repository, "new.go")
	modified := build(t, repository, "amd64")
	other := filepath.Join(t.TempDir(), "other")
	write(t, "image: other:dev\n", other)
	tests := []struct {
		name    string
		change  func(*options)
		message string
	}{
		{"no version", func(o *options) { o.version = "" }, "is not of the form v1.2.3"},
		{"a version without v", func(o *options) { o.version = "1.2.3" }, "is not of the form v1.2.3"},
		{"a short version", func(o *options) { o.version = "v1.2" }, "is not of the form v1.2.3"},
		{"uncommitted changes", func(o *options) { o.binaries = modified }, "has uncommitted changes"},
		{"no image", func(o *options) { o.image = other }, "read the image"},
		{"no manifest", func(o *options) { o.manifest += ".absent" }, "read the manifest"},
		{"a manifest of another image", func(o *options) { o.manifest = other }, "has no line with the image"},
		{"no plugin", func(o *options) { o.plugins = nil }, "no binaries of the plugin"},
		{"a plugin of another commit", func(o *options) { o.plugins = modified }, "is of another commit"},
		{"no license", func(o *options) { o.license += ".absent" }, "read the license"},
		{"no chart", func(o *options) { o.chart += "/absent" }, "chart "},
		{"a chart without values", func(o *options) { o.chart += "/templates" }, "Chart.yaml: does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkRefuses(t, valid, test.change, options.release, test.message)
		})
	}
}
