// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrInvalid is wrapped by every error about files that are not a chart.
var ErrInvalid = errors.New("not a valid chart")

// Chart is a chart as its files. Each operation has a parsed chart of its own, because rendering
// changes a chart (it enables sub-charts and imports values).
type Chart struct {
	files      []*archive.BufferedFile
	digest     string
	name       string
	version    string
	appVersion string
	schemas    valuesSchemas
	// valueNames and namesCapabilities are computed at their first use.
	valueNames        func() map[string]bool
	namesCapabilities func() bool
	// size is the size of all files in bytes.
	size int
	// single is the parsed chart if it has no dependencies; nil otherwise. It must not be changed.
	single *chartv2.Chart
}

// LoadFS reads the chart at root in fsys, without the files that .helmignore names. An
// embed.FS needs the "all:" prefix; without it, files such as templates/_helpers.tpl are
// missing. Symbolic links are followed, as in Helm. The error wraps [ErrInvalid] when
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
		return nil, fmt.Errorf("read chart archive: %w: %w", ErrInvalid, err)
	}
	return newChart(files)
}

// Name is the chart's name in its Chart.yaml.
func (c *Chart) Name() string { return c.name }

// Version is the chart's version in its Chart.yaml.
func (c *Chart) Version() string { return c.version }

// AppVersion is the version of the application in Chart.yaml; empty if Chart.yaml has none.
func (c *Chart) AppVersion() string { return c.appVersion }

// Digest identifies the content of the chart: a sha256, in hex, over the names
// and bytes of its files. It is the same for a directory and for its archive.
func (c *Chart) Digest() string { return c.digest }

// Size is the size of all files in bytes.
func (c *Chart) Size() int { return c.size }

// ShortDigest is the beginning of the digest. It fits into a label together with other values and
// is long enough to avoid accidental collisions.
func (c *Chart) ShortDigest() string { return c.digest[:16] }

func newChart(files []*archive.BufferedFile) (*Chart, error) {
	slices.SortFunc(files, func(a, b *archive.BufferedFile) int { return strings.Compare(a.Name, b.Name) })
	c := &Chart{files: files, digest: digestFiles(files)}
	for _, file := range files {
		c.size += len(file.Data)
	}
	parsed, err := c.Parse()
	if err != nil {
		return nil, err
	}
	if err := installable(parsed); err != nil {
		return nil, fmt.Errorf("%w: chart %s: %w", ErrInvalid, parsed.Metadata.Name, err)
	}
	c.name = parsed.Metadata.Name
	c.version = parsed.Metadata.Version
	c.appVersion = parsed.Metadata.AppVersion
	c.schemas = compileSchemas(parsed)
	c.valueNames, c.namesCapabilities = sync.OnceValue(c.findValueNames), sync.OnceValue(c.findCapabilities)
	if len(parsed.Dependencies()) == 0 && len(parsed.Metadata.Dependencies) == 0 {
		c.single = parsed
	}
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

// Parse returns a chart whose metadata, values and dependencies the caller may change, but not its
// files. A chart without dependencies is parsed only once.
func (c *Chart) Parse() (*chartv2.Chart, error) {
	if c.single != nil {
		parsed, metadata := *c.single, *c.single.Metadata
		metadata.Annotations = maps.Clone(metadata.Annotations)
		parsed.Metadata, parsed.Values = &metadata, runtime.DeepCopyJSON(parsed.Values)
		return &parsed, nil
	}
	parsed, err := loader.LoadFiles(c.files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := parsed.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
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
