// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
)

// Chart is a chart held as its files. Rendering changes a chart in place
// (sub-charts are enabled, values imported), so every operation parses a fresh
// one from the same bytes.
type Chart struct {
	files      []*archive.BufferedFile
	digest     string
	name       string
	version    string
	appVersion string
	schema     *valuesSchema
	// size is that of all files, in bytes.
	size int
}

// LoadFS reads the chart that lies at root in fsys. An embed.FS must be
// embedded with the "all:" prefix, or files such as templates/_helpers.tpl are
// missing from it. It fails with an error that wraps [ErrInvalidChart] when the
// files are not a chart.
func LoadFS(fsys fs.FS, root string) (*Chart, error) {
	sub, err := fs.Sub(fsys, root)
	if err != nil {
		return nil, fmt.Errorf("open chart %q: %w", root, err)
	}
	rules, err := ignoreRules(sub)
	if err != nil {
		return nil, fmt.Errorf("read chart %q: %w", root, err)
	}
	var files []*archive.BufferedFile
	err = fs.WalkDir(sub, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && rules.Ignore(path, info) {
				return fs.SkipDir
			}
			return nil
		}
		if rules.Ignore(path, info) || !info.Mode().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(sub, path)
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: path, Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read chart %q: %w", root, err)
	}
	return newChart(files)
}

// LoadDir reads the chart in the directory dir, leaving out what its
// .helmignore names.
func LoadDir(dir string) (*Chart, error) {
	return LoadFS(os.DirFS(dir), ".")
}

// LoadArchive reads a packaged chart (.tgz). Helm's limits on the size of an
// archive and of each of its files apply.
func LoadArchive(r io.Reader) (*Chart, error) {
	files, err := archive.LoadArchiveFiles(r)
	if err != nil {
		return nil, fmt.Errorf("read chart archive: %w: %w", ErrInvalidChart, err)
	}
	return newChart(files)
}

// Name is the chart's name in its Chart.yaml.
func (c *Chart) Name() string { return c.name }

// Version is the chart's version in its Chart.yaml.
func (c *Chart) Version() string { return c.version }

// AppVersion is the version of what the chart installs; empty when the chart
// names none.
func (c *Chart) AppVersion() string { return c.appVersion }

// Digest identifies the content of the chart: a sha256, in hex, over the names
// and bytes of its files. It is the same for a directory and for its archive.
func (c *Chart) Digest() string { return c.digest }

// shortDigest is as much of the digest as fits into a label beside others: far
// more than accidental collisions need.
func (c *Chart) shortDigest() string { return c.digest[:16] }

func ignoreRules(fsys fs.FS) (*ignore.Rules, error) {
	rules := ignore.Empty()
	data, err := fs.ReadFile(fsys, ignore.HelmIgnore)
	switch {
	case err == nil:
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	rules.AddDefaults()
	return rules, nil
}

func newChart(files []*archive.BufferedFile) (*Chart, error) {
	slices.SortFunc(files, func(a, b *archive.BufferedFile) int { return strings.Compare(a.Name, b.Name) })
	c := &Chart{files: files, digest: digestFiles(files)}
	for _, file := range files {
		c.size += len(file.Data)
	}
	parsed, err := c.parse()
	if err != nil {
		return nil, err
	}
	c.name = parsed.Metadata.Name
	c.version = parsed.Metadata.Version
	c.appVersion = parsed.Metadata.AppVersion
	c.schema = compileSchema(parsed)
	return c, nil
}

// parse returns a chart that the caller may change.
func (c *Chart) parse() (*chartv2.Chart, error) {
	parsed, err := loader.LoadFiles(c.files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidChart, err)
	}
	if err := parsed.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidChart, err)
	}
	return parsed, nil
}

// digestFiles writes lengths before names and contents, so that no two
// different sets of files give the same input to the hash.
func digestFiles(files []*archive.BufferedFile) string {
	hash := sha256.New()
	for _, file := range files {
		fmt.Fprintf(hash, "%d %s %d ", len(file.Name), file.Name, len(file.Data))
		hash.Write(file.Data)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
