// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/example/demoapp-controller/hack/image/pack"
	"github.com/example/demoapp-controller/hack/image/sbom"
)

// release is what a release is made of.
type release struct {
	version    string
	repository string
	binaries   []string
	image      string
	manifest   string
	chart      string
	output     string
}

// binary is one binary of the operator.
type binary struct {
	content            []byte
	platform, revision string
	created            time.Time
}

// write replaces the output directory.
func (r release) write() error {
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("version %q: is not of the form v1.2.3 or v1.2.3-rc.1", r.version)
	}
	files := map[string][]byte{}
	commit, err := r.addBinaries(files)
	if err != nil {
		return err
	}
	digest, err := r.addImage(files)
	if err != nil {
		return err
	}
	if err := r.addManifest(files, r.reference(digest)); err != nil {
		return err
	}
	if err := r.addChart(files, digest, commit.created); err != nil {
		return err
	}
	files["checksums.txt"] = checksums(files)
	return r.replaceOutput(files)
}

// addBinaries adds the binaries with their bills of materials. It returns one of them.
func (r release) addBinaries(files map[string][]byte) (binary, error) {
	var first binary
	for i, path := range r.binaries {
		b, err := readBinary(path)
		if err != nil {
			return binary{}, fmt.Errorf("%s: %w", path, err)
		}
		if i == 0 {
			first = b
		}
		if b.revision != first.revision {
			return binary{}, fmt.Errorf("%s: is of commit %s, but %s is of %s; build both again", path, b.revision, r.binaries[0], first.revision)
		}
		name := fmt.Sprintf("%s-%s-%s", pack.Title, r.version, b.platform)
		if _, ok := files[name]; ok {
			return binary{}, fmt.Errorf("%s: is the second binary for %s", path, b.platform)
		}
		document, err := sbom.Write(b.content, sbom.Options{Name: name, Version: r.version, License: pack.Licenses, Created: b.created})
		if err != nil {
			return binary{}, fmt.Errorf("%s: %w", path, err)
		}
		files[name], files[name+".spdx.json"] = b.content, document
	}
	if len(r.binaries) == 0 {
		return binary{}, errors.New("no binaries to release")
	}
	return first, nil
}

func readBinary(path string) (binary, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("read the binary: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return binary{}, fmt.Errorf("read the build information: %w", err)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	if settings["vcs.revision"] == "" {
		return binary{}, errors.New("does not name its commit: build it in a clone, with git installed")
	}
	if settings["vcs.modified"] == "true" {
		return binary{}, errors.New("has uncommitted changes: commit them, and build it again")
	}
	created, err := time.Parse(time.RFC3339, settings["vcs.time"])
	if err != nil {
		return binary{}, fmt.Errorf("the time of the commit: %w", err)
	}
	return binary{
		content: content, platform: settings["GOOS"] + "-" + settings["GOARCH"],
		revision: settings["vcs.revision"], created: created.UTC(),
	}, nil
}

// reference returns the reference of the image by its digest. The tag is for the reader.
func (r release) reference(digest string) string {
	return fmt.Sprintf("%s:%s@%s", r.repository, r.version, digest)
}

// addImage adds the image and its bills of materials. It returns the digest of the image.
func (r release) addImage(files map[string][]byte) (string, error) {
	prefix := fmt.Sprintf("%s-%s-image", pack.Title, r.version)
	archive, err := os.ReadFile(filepath.Join(r.image, "oci.tar"))
	if err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	files[prefix+".tar"] = archive
	documents, err := filepath.Glob(filepath.Join(r.image, "sbom-*.spdx.json"))
	if err != nil {
		return "", fmt.Errorf("find the bills of materials: %w", err)
	}
	for _, document := range documents {
		content, err := os.ReadFile(document)
		if err != nil {
			return "", fmt.Errorf("read the bill of materials: %w", err)
		}
		files[prefix+"-linux-"+strings.TrimPrefix(filepath.Base(document), "sbom-")] = content
	}
	content, err := os.ReadFile(filepath.Join(r.image, "digest"))
	if err != nil {
		return "", fmt.Errorf("read the digest of the image: %w", err)
	}
	digest := strings.TrimSpace(string(content))
	files["image-digest.txt"] = []byte(r.reference(digest) + "\n")
	return digest, nil
}

// developmentImage is the line of the manifest with the image that "make image" builds.
var developmentImage = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )"?demoapp-controller:dev"?$`)

func (r release) addManifest(files map[string][]byte, reference string) error {
	content, err := os.ReadFile(r.manifest)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	if !developmentImage.Match(content) {
		return fmt.Errorf("%s: has no line with the image demoapp-controller:dev", r.manifest)
	}
	files["install.yaml"] = developmentImage.ReplaceAll(content, []byte("${1}"+reference))
	return nil
}

// checksums returns the SHA-256 of each file, in the format and the order of sha256sum.
func checksums(files map[string][]byte) []byte {
	lines := make([]string, 0, len(files))
	for name, content := range files {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return []byte(strings.Join(lines, ""))
}

func (r release) replaceOutput(files map[string][]byte) error {
	if err := os.RemoveAll(r.output); err != nil {
		return fmt.Errorf("remove the previous release: %w", err)
	}
	if err := os.MkdirAll(r.output, 0o750); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.output, name), content, 0o600); err != nil {
			return fmt.Errorf("write the release: %w", err)
		}
	}
	return nil
}
