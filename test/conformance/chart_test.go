// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// namespaceMark stands for the release's namespace in files under crds/, where Helm renders no
// template. Two releases of the same chart then have different CRDs.
const namespaceMark = "@NAMESPACE@"

// crlfMark in the name of a template gives its lines Windows line ends, which a repository would
// not keep.
const crlfMark = ".crlf."

// source has the files of a chart in testdata.
type source map[string][]byte

// readChart reads a chart from testdata.
func readChart(t testing.TB, name string) source {
	t.Helper()
	root := filepath.Join("testdata", "charts", name)
	files := source{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(path, crlfMark) {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		files[filepath.ToSlash(relative)] = data
		return err
	})
	if err != nil {
		t.Fatalf("read chart %s: %v", name, err)
	}
	return files
}

// in returns the chart's files for a release in a namespace.
func (s source) in(namespace string) source {
	files := source{}
	for name, data := range s {
		files[name] = bytes.ReplaceAll(data, []byte(namespaceMark), []byte(namespace))
	}
	return files
}

// stock loads the chart with Helm's own loader.
func (s source) stock(t testing.TB) *chartv2.Chart {
	t.Helper()
	files := make([]*archive.BufferedFile, 0, len(s))
	for name, data := range s {
		files = append(files, &archive.BufferedFile{Name: name, Data: data})
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// engine loads the chart with the engine's loader.
func (s source) engine(t testing.TB) *chart.Chart {
	t.Helper()
	files := fstest.MapFS{}
	for name, data := range s {
		files[name] = &fstest.MapFile{Data: data}
	}
	loaded, err := chart.LoadFS(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
