// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing/fstest"
	"time"
)

const (
	// pluginProgram is the program that kubectl finds, and pluginName the name that krew installs.
	pluginProgram = "kubectl-demoapp"
	pluginName    = "demoapp"
	// completer is what kubectl runs to complete the arguments of the plugin, on systems with a
	// shell.
	completer     = "kubectl_complete-demoapp"
	completerText = "#!/bin/sh\nexec kubectl demoapp __complete \"$@\"\n"
)

// addPlugins adds an archive with its bill of materials for each platform of the plugin, and the
// manifest for krew. The plugin must be of the same commit and version as the operator.
func (o options) addPlugins(files map[string][]byte, operator stamp) error {
	if len(o.plugins) == 0 {
		return errors.New("no binaries of the plugin")
	}
	programs, err := readPrograms(o.version, o.plugins...)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(o.license)
	if err != nil {
		return fmt.Errorf("read the license: %w", err)
	}
	if programs[0].stamp != operator {
		return fmt.Errorf("%s: is of another commit or version than the operator; build both again", o.plugins[0])
	}
	home := "https://" + programs[0].info.Main.Path
	var manifest strings.Builder
	fmt.Fprintf(&manifest, `# The manifest of the plugin for krew: kubectl krew install --manifest=krew.yaml
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: %s
spec:
  version: %s
  homepage: %s
  shortDescription: Show and operate the objects of %s
  caveats: |
    kubectl completes arguments of the plugin if %s of the archive is on your PATH.
  platforms:
`, pluginName, o.version, home, title, completer)
	for _, p := range programs {
		program := pluginProgram
		if p.settings["GOOS"] == "windows" {
			program += ".exe"
		}
		tree := fstest.MapFS{program: {Data: p.content, Mode: 0o755}, "LICENSE": {Data: license, Mode: 0o644}}
		if p.settings["GOOS"] != "windows" {
			tree[completer] = &fstest.MapFile{Data: []byte(completerText), Mode: 0o755}
		}
		packed, err := gzipped(p.created, tree)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-%s", pluginProgram, p.version, p.platform())
		files[name+".tar.gz"] = packed
		if files[name+".spdx.json"], err = p.sbom(name); err != nil {
			return err
		}
		fmt.Fprintf(&manifest, `  - selector: {matchLabels: {os: %s, arch: %s}}
    uri: %s/releases/download/%s/%s.tar.gz
    sha256: %x
    bin: %s
`, p.settings["GOOS"], p.settings["GOARCH"], home, o.version, name, sha256.Sum256(packed), program)
	}
	files["krew.yaml"] = []byte(manifest.String())
	return nil
}

// gzipped returns a compressed archive, see archive.
func gzipped(modified time.Time, tree fstest.MapFS) ([]byte, error) {
	content, err := archive(modified, tree)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	_, err = compressed.Write(content)
	err = errors.Join(err, compressed.Close())
	return packed.Bytes(), err
}
