// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

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

// testChart makes a chart of the given files and a Chart.yaml.
func testChart(t *testing.T, files map[string]string) *Chart {
	t.Helper()
	loaded, err := LoadFS(chartFS(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func chartFS(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: test\nversion: 1.2.3\nappVersion: \"9\"\n")}}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// configMap is a template.
func configMap(name, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  key: \"" + data + "\"\n"
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
		// says is a part of the error, as the helm command has it.
		says string
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
		"library chart": {load: func() (*Chart, error) {
			return LoadFS(chartYAML("apiVersion: v2\nname: a\nversion: 1.2.3\ntype: library\n"), ".")
		}, says: "not installable"},
		"dependency missing from charts/": {load: func() (*Chart, error) {
			return LoadFS(chartYAML("apiVersion: v2\nname: a\nversion: 1.2.3\ndependencies: [{name: b, version: 1.0.0, condition: b.enabled}]\n"), ".")
		}, says: "missing in charts/ directory: b"},
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
			if got := errors.Is(err, ErrInvalid); got == tc.unreadable {
				t.Errorf("error %q wraps ErrInvalidChart: %t", err, got)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q does not say %q", err, tc.says)
			}
		})
	}
}

// TestParse: changes of a parsed chart do not affect the next parsed chart.
func TestParse(t *testing.T) {
	chart := testChart(t, map[string]string{"values.yaml": "a: {b: 1.5}\n", "templates/a.yaml": "x"})
	first, err := chart.Parse()
	if err != nil {
		t.Fatal(err)
	}
	first.Values["a"].(map[string]any)["b"] = "changed"
	first.Metadata.Name = "changed"
	second, err := chart.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if second.Name() != "test" || second.Values["a"].(map[string]any)["b"] == "changed" {
		t.Errorf("the second chart is %s with %v", second.Name(), second.Values)
	}
}

// TestSymbolicLinks: links in a directory are followed or refused as in Helm.
func TestSymbolicLinks(t *testing.T) {
	const template = "templates/a.yaml"
	base := map[string]string{template: "a: 1\n", "shared/b.yaml": "b: 1\n"}
	tests := map[string]struct {
		// links maps names of links to their targets.
		links map[string]string
		// added are the files that the chart has because of them.
		added   []string
		invalid bool
	}{
		"to a file":              {links: map[string]string{"templates/b.yaml": "../shared/b.yaml"}, added: []string{"templates/b.yaml"}},
		"to a directory":         {links: map[string]string{"templates/more": "../shared"}, added: []string{"templates/more/b.yaml"}},
		"to a link":              {links: map[string]string{"templates/b.yaml": "c.yaml", "templates/c.yaml": "a.yaml"}, added: []string{"templates/b.yaml", "templates/c.yaml"}},
		"leads nowhere":          {links: map[string]string{"templates/b.yaml": "none.yaml"}, invalid: true},
		"ignored, leads nowhere": {links: map[string]string{"templates/.b.yaml": "none.yaml"}, invalid: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fsys := chartFS(base)
			if err := os.CopyFS(dir, fsys); err != nil {
				t.Fatal(err)
			}
			for link, target := range tc.links {
				if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
				fsys[link] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
			}

			fromDir, errDir := LoadDir(dir)
			fromFS, errFS := LoadFS(fsys, ".")
			stock, errStock := loader.LoadDir(dir)

			if (errStock != nil) != tc.invalid {
				t.Fatalf("Helm: error is %v, want one: %t", errStock, tc.invalid)
			}
			if tc.invalid {
				for where, err := range map[string]error{"directory": errDir, "file system": errFS} {
					if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "symbolic link") {
						t.Errorf("%s: error is %v, want an invalid chart because of its link", where, err)
					}
				}
				return
			}
			if err := errors.Join(errDir, errFS); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, file := range stock.Raw {
				want[file.Name] = string(file.Data)
			}
			for _, file := range tc.added {
				if want[file] == "" {
					t.Errorf("Helm does not have %s", file)
				}
			}
			for where, chart := range map[string]*Chart{"directory": fromDir, "file system": fromFS} {
				got := map[string]string{}
				for _, file := range chart.files {
					got[file.Name] = string(file.Data)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-helm +got):\n%s", where, diff)
				}
			}
			if fromDir.Digest() != fromFS.Digest() {
				t.Error("the digests of directory and file system differ")
			}
		})
	}
	t.Run("in a circle", func(t *testing.T) {
		for link, target := range map[string]string{"templates/b.yaml": "b.yaml", "shared/again": "."} {
			dir := t.TempDir()
			if err := errors.Join(os.CopyFS(dir, chartFS(base)), os.Symlink(target, filepath.Join(dir, link))); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadDir(dir); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), link) {
				t.Errorf("%s: error is %v, want an invalid chart because of the link", link, err)
			}
		}
	})
	t.Run("out of the directory", func(t *testing.T) {
		outside, dir := t.TempDir(), t.TempDir()
		chart := filepath.Join(dir, "chart")
		if err := errors.Join(
			os.WriteFile(filepath.Join(outside, "b.yaml"), []byte("b: 1\n"), 0o600),
			os.CopyFS(chart, chartFS(base)),
			os.Symlink(outside, filepath.Join(chart, "templates", "more")),
			os.Symlink(chart, filepath.Join(dir, "link")),
		); err != nil {
			t.Fatal(err)
		}
		loaded, err := LoadDir(filepath.Join(dir, "link"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(loaded.files, func(file *archive.BufferedFile) bool { return file.Name == "templates/more/b.yaml" }) {
			t.Error("the file outside of the directory is missing")
		}
		root, err := os.OpenRoot(chart)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if _, err := LoadFS(root.FS(), "."); !errors.Is(err, ErrInvalid) {
			t.Errorf("error is %v, want an invalid chart: the file system does not lead outside", err)
		}
	})
}

// unfollowed is a file system that shows links without following them.
type unfollowed struct{ fstest.MapFS }

func (f unfollowed) Stat(name string) (fs.FileInfo, error) { return f.Lstat(name) }

func TestUnreadableFiles(t *testing.T) {
	with := func(name string, file *fstest.MapFile) fs.FS {
		fsys := chartFS(nil)
		fsys[name] = file
		return fsys
	}
	tests := map[string]fs.FS{
		"a link that is not followed": unfollowed{with("templates/a.yaml", &fstest.MapFile{Data: []byte("../Chart.yaml"), Mode: fs.ModeSymlink}).(fstest.MapFS)},
		"a pipe":                      with("templates/a.yaml", &fstest.MapFile{Mode: fs.ModeNamedPipe}),
	}
	for name, fsys := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := LoadFS(fsys, ".")
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "templates/a.yaml") {
				t.Errorf("error is %v, want an invalid chart that names the file", err)
			}
		})
	}
	t.Run("a byte order mark", func(t *testing.T) {
		chart, err := LoadFS(with("values.yaml", &fstest.MapFile{Data: []byte("\xEF\xBB\xBFa: 1\n")}), ".")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(chart.files[1].Data); got != "a: 1\n" {
			t.Errorf("values.yaml is %q, want it without the mark", got)
		}
	})
}
