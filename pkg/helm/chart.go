// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
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

// LoadFS reads the chart that lies at root in fsys, leaving out what its
// .helmignore names. An embed.FS must be embedded with the "all:" prefix, or files
// such as templates/_helpers.tpl are missing from it. Symbolic links are followed,
// as Helm does. It fails with an error that wraps [ErrInvalidChart] when the files
// are not a chart that can be installed: besides malformed ones, these are library
// charts, charts that lack a dependency in charts/, and charts with links that lead
// nowhere.
func LoadFS(fsys fs.FS, root string) (*Chart, error) {
	sub, err := fs.Sub(fsys, root)
	if err != nil {
		return nil, fmt.Errorf("open chart %q: %w", root, err)
	}
	files, err := readFiles(sub)
	if err != nil {
		return nil, fmt.Errorf("read chart %q: %w", root, err)
	}
	return newChart(files)
}

// LoadDir reads the chart in the directory dir, as [LoadFS] does. Symbolic links may
// lead out of the directory.
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
	if err := installable(parsed); err != nil {
		return nil, fmt.Errorf("%w: chart %s: %w", ErrInvalidChart, parsed.Metadata.Name, err)
	}
	c.name = parsed.Metadata.Name
	c.version = parsed.Metadata.Version
	c.appVersion = parsed.Metadata.AppVersion
	c.schema = compileSchema(parsed)
	return c, nil
}

// installable reports why the helm command would not install a chart.
func installable(parsed *chartv2.Chart) error {
	if kind := parsed.Metadata.Type; kind != "" && kind != "application" {
		return fmt.Errorf("%s charts are not installable: install a chart that depends on it", kind)
	}
	accessor, err := chart.NewAccessor(parsed)
	if err != nil {
		return err
	}
	if err := action.CheckDependencies(parsed, accessor.MetaDependencies()); err != nil {
		return fmt.Errorf("%w: add them with \"helm dependency build\"", err)
	}
	return nil
}

// parse returns the chart for one operation. As the helm command does, it warns of a
// deprecated one.
func (o *operation) parse(c *Chart) (*chartv2.Chart, error) {
	parsed, err := c.parse()
	if err == nil && parsed.Metadata.Deprecated {
		o.logger.Warn("The chart is deprecated", slog.String("chart", c.Name()), slog.String("version", c.Version()))
	}
	return parsed, err
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
