// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// packed is a chart as "helm package" makes it.
func packed(t *testing.T, fsys fs.FS, folder string) *bytes.Buffer {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(folder, name), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}
		_, writeErr := archive.Write(nil)
		if err := errors.Join(writeErr, archive.WriteHeader(header)); err != nil {
			return err
		}
		_, err = archive.Write(data)
		return err
	})
	if err := errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return &buffer
}

func TestLoad(t *testing.T) {
	embedded, err := LoadFS(charts.DemoApp(), ".")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "some-name")
	if err := os.CopyFS(dir, charts.DemoApp()); err != nil {
		t.Fatal(err)
	}
	fromDir, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fromArchive, err := LoadArchive(packed(t, charts.DemoApp(), "demo-app"))
	if err != nil {
		t.Fatal(err)
	}
	fromParent, err := LoadFS(os.DirFS(filepath.Dir(dir)), "some-name")
	if err != nil {
		t.Fatal(err)
	}
	type summary struct{ Name, Version, AppVersion, Digest string }
	of := func(c *Chart) summary { return summary{c.Name(), c.Version(), c.AppVersion(), c.Digest()} }
	want := summary{"demo-app", "0.1.0", "1.27", embedded.Digest()}
	for where, chart := range map[string]*Chart{"embedded": embedded, "directory": fromDir, "archive": fromArchive, "parent": fromParent} {
		if diff := cmp.Diff(want, of(chart)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
	}
	if len(want.Digest) != 64 {
		t.Errorf("digest is %q, want a sha256 in hex", want.Digest)
	}
}

func TestChartDigest(t *testing.T) {
	base := map[string]string{"templates/a.yaml": "a: 1\n", "values.yaml": "b: 2\n"}
	digest := func(files map[string]string) string { return testChart(t, files).Digest() }
	unchanged := digest(base)
	tests := map[string]struct {
		files map[string]string
		same  bool
	}{
		"again":       {map[string]string{"templates/a.yaml": "a: 1\n", "values.yaml": "b: 2\n"}, true},
		"a template":  {map[string]string{"templates/a.yaml": "a: 2\n", "values.yaml": "b: 2\n"}, false},
		"the values":  {map[string]string{"templates/a.yaml": "a: 1\n", "values.yaml": "b: 3\n"}, false},
		"a name":      {map[string]string{"templates/b.yaml": "a: 1\n", "values.yaml": "b: 2\n"}, false},
		"a file more": {map[string]string{"templates/a.yaml": "a: 1\n", "values.yaml": "b: 2\n", "README.md": ""}, false},
		"a file that is ignored by default": {
			map[string]string{"templates/a.yaml": "a: 1\n", "values.yaml": "b: 2\n", "templates/.a.yaml.swp": "x"}, true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := digest(tc.files); (got == unchanged) != tc.same {
				t.Errorf("digest = %s, unchanged is %s, want same %t", got, unchanged, tc.same)
			}
		})
	}
}

func TestHelmignore(t *testing.T) {
	chart := testChart(t, map[string]string{
		".helmignore":          "# not these\n*.bak\n/notes/\ntemplates/draft.yaml\n",
		"templates/a.yaml":     "",
		"templates/a.yaml.bak": "",
		"templates/draft.yaml": "",
		"notes/plan.txt":       "",
		"sub/notes/plan.txt":   "",
	})
	var got []string
	for _, file := range chart.files {
		got = append(got, file.Name)
	}
	if diff := cmp.Diff([]string{".helmignore", "Chart.yaml", "sub/notes/plan.txt", "templates/a.yaml"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestInvalidCharts(t *testing.T) {
	chartYAML := func(content string) fstest.MapFS { return fstest.MapFS{"Chart.yaml": {Data: []byte(content)}} }
	tests := map[string]struct {
		load func() (*Chart, error)
		// readable says that the files could not even be read: that is no fault of
		// the chart.
		unreadable bool
	}{
		"empty":              {load: func() (*Chart, error) { return LoadFS(fstest.MapFS{}, ".") }},
		"Chart.yaml missing": {load: func() (*Chart, error) { return LoadFS(fstest.MapFS{"values.yaml": {}}, ".") }},
		"not YAML":           {load: func() (*Chart, error) { return LoadFS(chartYAML("a: b: c"), ".") }},
		"without a name":     {load: func() (*Chart, error) { return LoadFS(chartYAML("apiVersion: v2\nversion: 1.2.3\n"), ".") }},
		"without a version":  {load: func() (*Chart, error) { return LoadFS(chartYAML("apiVersion: v2\nname: a\n"), ".") }},
		"of an odd version":  {load: func() (*Chart, error) { return LoadFS(chartYAML("apiVersion: v2\nname: a\nversion: one\n"), ".") }},
		"values are no map": {load: func() (*Chart, error) {
			return LoadFS(chartFS(map[string]string{"values.yaml": "- a\n"}), ".")
		}},
		"not an archive":     {load: func() (*Chart, error) { return LoadArchive(bytes.NewBufferString("no")) }},
		"an archive of none": {load: func() (*Chart, error) { return LoadArchive(packed(t, fstest.MapFS{}, "a")) }},
		"a root like none":   {load: func() (*Chart, error) { return LoadFS(fstest.MapFS{}, "../a") }, unreadable: true},
		"no such directory":  {load: func() (*Chart, error) { return LoadDir(filepath.Join(t.TempDir(), "none")) }, unreadable: true},
		"bad .helmignore": {load: func() (*Chart, error) {
			return LoadFS(chartFS(map[string]string{".helmignore": "a/**/b\n"}), ".")
		}, unreadable: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			chart, err := tc.load()
			if err == nil {
				t.Fatalf("loaded %s", chart.Name())
			}
			if got := errors.Is(err, ErrInvalidChart); got == tc.unreadable {
				t.Errorf("error %q wraps ErrInvalidChart: %t", err, got)
			}
		})
	}
}

// TestParse: whoever changes a parsed chart changes nothing for the next one.
func TestParse(t *testing.T) {
	chart := testChart(t, map[string]string{"values.yaml": "a: {b: 1}\n", "templates/a.yaml": "x"})
	first, err := chart.parse()
	if err != nil {
		t.Fatal(err)
	}
	first.Values["a"] = "changed"
	first.Metadata.Name = "changed"
	first.Templates[0].Name = "changed"
	second, err := chart.parse()
	if err != nil {
		t.Fatal(err)
	}
	if second.Name() != "test" || second.Templates[0].Name != "templates/a.yaml" || second.Values["a"] == "changed" {
		t.Errorf("the second chart is %s with %s and %v", second.Name(), second.Templates[0].Name, second.Values)
	}
}
