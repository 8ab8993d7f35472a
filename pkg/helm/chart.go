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
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Chart is a chart as its files. Each operation parses a chart of its own from the files,
// because rendering changes a chart (it enables sub-charts and imports values).
type Chart struct {
	files      []*archive.BufferedFile
	digest     string
	name       string
	version    string
	appVersion string
	schema     *valuesSchema
	// valueNames is computed at its first use.
	valueNames func() map[string]bool
	// size is the size of all files in bytes.
	size int
}

// LoadFS reads the chart at root in fsys, without the files that .helmignore names. An
// embed.FS needs the "all:" prefix; without it, files such as templates/_helpers.tpl are
// missing. Symbolic links are followed, as in Helm. The error wraps [ErrInvalidChart] when
// the chart is malformed, is a library chart, lacks a dependency in charts/, or has a
// broken link.
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

// AppVersion is the version of the application in Chart.yaml; empty when there is none.
func (c *Chart) AppVersion() string { return c.appVersion }

// Digest identifies the content of the chart: a sha256, in hex, over the names
// and bytes of its files. It is the same for a directory and for its archive.
func (c *Chart) Digest() string { return c.digest }

// shortDigest is the beginning of the digest. It fits into a label beside other values and
// is long enough to avoid accidental collisions.
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
	c.valueNames = sync.OnceValue(c.findValueNames)
	return c, nil
}

// installable returns the reason why the helm command would not install a chart.
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

// parse returns a chart for one operation. Like the helm command, it warns of a deprecated
// chart.
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

// digestFiles returns the digest of the files. It writes lengths before names and contents,
// so that different files never give the same input to the hash.
func digestFiles(files []*archive.BufferedFile) string {
	hash := sha256.New()
	for _, file := range files {
		fmt.Fprintf(hash, "%d %s %d ", len(file.Name), file.Name, len(file.Data))
		hash.Write(file.Data)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
