// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ui

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The package axe-core of npm (https://github.com/dequelabs/axe-core), and the SHA-512 of its archive
// as npm has it.
const (
	axePackage   = "axe-core@4.14.1"
	axeIntegrity = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axeScript returns the script of axe, which npm downloads once.
var axeScript = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	command := exec.Command("npm", "pack", axePackage, "--pack-destination", folder)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", errors.New("the archive of npm is not the expected one")
	}
	content, err := os.ReadFile(archives[0])
	if err != nil {
		return "", err
	}
	if sum := sha512.Sum512(content); base64.StdEncoding.EncodeToString(sum[:]) != axeIntegrity {
		return "", errors.New("the archive of npm is not the expected one")
	}
	return extract(content, "package/axe.min.js")
})

// extract returns a file of an archive.
func extract(archive []byte, name string) (string, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	files := tar.NewReader(unpacked)
	for {
		header, err := files.Next()
		if err != nil {
			return "", err
		}
		if header.Name == name {
			content, err := io.ReadAll(files)
			return string(content), err
		}
	}
}

// passesAxe checks all rules of axe for the visible page.
func (b *browser) passesAxe(t *testing.T, what string) {
	t.Helper()
	script, err := axeScript()
	if err != nil {
		t.Fatalf("get axe: %v", err)
	}
	evaluate[bool](t, b, "window.axe === undefined && (() => {"+script+"})(), true")
	found := evaluate[[]string](t, b, `axe.run(document, { resultTypes: ['violations'] }).then((result) =>
		result.violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary)))`)
	if len(found) > 0 {
		t.Errorf("%s: axe finds %d violations:\n%s", what, len(found), strings.Join(found, "\n"))
	}
}
