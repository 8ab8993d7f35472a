// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// developmentImage is the line of the manifest with the image that "make image" builds.
var developmentImage = regexp.MustCompile(`(?m)^(\s*(?:- )?image: )"?demoapp-controller:dev"?$`)

// release replaces the output directory with the files of a release.
func (o options) release() error {
	if semver.Canonical(o.version) != o.version || o.version == "" {
		return fmt.Errorf("version %q: is not of the form v1.2.3 or v1.2.3-rc.1", o.version)
	}
	programs, err := readPrograms(o.version, o.binaries...)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for i, p := range programs {
		switch {
		case p.revision == "":
			return fmt.Errorf("%s: does not name its commit: build it in a clone, with git installed", o.binaries[i])
		case p.modified():
			return fmt.Errorf("%s: has uncommitted changes: commit them, and build it again", o.binaries[i])
		}
		name := fmt.Sprintf("%s-%s-%s", title, p.version, p.platform())
		files[name] = p.content
		if files[name+".spdx.json"], err = p.sbom(name); err != nil {
			return err
		}
	}
	if err := o.addPlugins(files, programs[0].stamp); err != nil {
		return fmt.Errorf("the plugin: %w", err)
	}
	digest, err := o.addImage(files)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	// The tag is for the reader.
	reference := fmt.Sprintf("%s:%s@%s", o.repository, o.version, digest)
	files["image-digest.txt"] = []byte(reference + "\n")
	manifest, err := os.ReadFile(o.manifest)
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	if !developmentImage.Match(manifest) {
		return fmt.Errorf("%s: has no line with the image demoapp-controller:dev", o.manifest)
	}
	files["install.yaml"] = developmentImage.ReplaceAll(manifest, []byte("${1}"+reference))
	chart := title + "-" + strings.TrimPrefix(o.version, "v") + ".tgz"
	if files[chart], err = o.packChart(digest, programs[0].created); err != nil {
		return fmt.Errorf("chart %s: %w", o.chart, err)
	}
	// The format and the order of sha256sum.
	var checksums []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		checksums = fmt.Appendf(checksums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files["checksums.txt"] = checksums
	if err := replaceFiles(o.output, files); err != nil {
		return err
	}
	fmt.Printf("%s: version %s\n", o.output, o.version)
	return nil
}

// addImage adds the image and its bills of materials. It returns the digest of the image.
func (o options) addImage(files map[string][]byte) (string, error) {
	prefix := fmt.Sprintf("%s-%s-image", title, o.version)
	added := map[string]string{filepath.Join(o.image, "oci.tar"): prefix + ".tar"}
	documents, err := filepath.Glob(filepath.Join(o.image, "sbom-*"))
	if err != nil {
		return "", err
	}
	for _, document := range documents {
		added[document] = prefix + "-linux-" + strings.TrimPrefix(filepath.Base(document), "sbom-")
	}
	for file, name := range added {
		if files[name], err = os.ReadFile(file); err != nil {
			return "", err
		}
	}
	digest, err := os.ReadFile(filepath.Join(o.image, "digest"))
	return strings.TrimSpace(string(digest)), err
}

// packChart returns the packaged chart. It has the versions of the release, and its default image
// is the image of the release by its digest. "helm package" is not used, because its archives
// contain the current time. Comments of the edited files stay.
func (o options) packChart(digest string, modified time.Time) ([]byte, error) {
	chart, err := readTree(o.chart, title)
	if err != nil {
		return nil, err
	}
	for _, edit := range []struct{ file, line, replacement string }{
		{"Chart.yaml", `(?m)^version: .*$`, "version: " + strings.TrimPrefix(o.version, "v")},
		{"Chart.yaml", `(?m)^appVersion: .*$`, "appVersion: " + o.version},
		{"values.yaml", `(?m)^  repository: demoapp-controller$`, "  repository: " + o.repository},
		{"values.yaml", `(?m)^  digest: ""$`, "  digest: " + digest},
	} {
		file, line := chart[title+"/"+edit.file], regexp.MustCompile(edit.line)
		if file == nil {
			return nil, fmt.Errorf("%s: does not exist", edit.file)
		}
		if found := len(line.FindAll(file.Data, -1)); found != 1 {
			return nil, fmt.Errorf("%s: has %d lines that match %s, want 1", edit.file, found, edit.line)
		}
		file.Data = line.ReplaceAllLiteral(file.Data, []byte(edit.replacement))
	}
	return gzipped(modified, chart)
}
