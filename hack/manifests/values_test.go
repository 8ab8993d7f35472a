// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []value
		problem    string
	}{
		{
			name: "comment of several lines, after that of the file",
			yaml: "# The file.\n\n# Number of\n# replicas.\nreplicas: 2\n",
			want: []value{{"replicas", "`2`", "Number of replicas."}},
		},
		{
			name: "mapping without a comment",
			yaml: "image:\n  # The tag.\n  tag: \"\"\n",
			want: []value{{"image.tag", "`\"\"`", "The tag."}},
		},
		{
			name: "mapping with a comment, and comments inside",
			yaml: "# Limits.\nresources:\n  # Memory.\n  memory: 1Gi\n",
			want: []value{{"resources", "", "Limits."}, {"resources.memory", "`\"1Gi\"`", "Memory."}},
		},
		{
			name: "mapping with a comment as a whole",
			yaml: "# Labels.\nlabels:\n  a: b\n",
			want: []value{{"labels", "`{\"a\":\"b\"}`", "Labels."}},
		},
		{name: "no comment", yaml: "replicas: 2\n", problem: "replicas: has no comment"},
		{name: "no comment inside", yaml: "image:\n  tag: a\n", problem: "image.tag: has no comment"},
		{name: "no values", yaml: "", problem: "no values"},
		{name: "no YAML", yaml: "a: [", problem: "yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := describe([]byte(test.yaml))

			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("got error %v, want %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(value{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReadmeKeepsItsText holds that only the table is replaced, and that a second run changes
// nothing.
func TestReadmeKeepsItsText(t *testing.T) {
	root := t.TempDir()
	write(t, root, valuesFile, "# A | B.\na: 1\n")
	write(t, root, readmeFile, "# Chart\n\n"+tableBegin+"old\n"+tableEnd+"\nEnd.\n")
	want := "# Chart\n\n" + tableBegin + "\n| value | default | description |\n|---|---|---|\n| `a` | `1` | A \\| B. |\n\n" +
		tableEnd + "\nEnd.\n"

	for range 2 {
		if err := writeReadme(root); err != nil {
			t.Fatal(err)
		}

		got, err := os.ReadFile(filepath.Join(root, readmeFile))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestReadmeWithoutTable holds that a page without the lines around the table is an error, and is
// not changed.
func TestReadmeWithoutTable(t *testing.T) {
	root := t.TempDir()
	write(t, root, valuesFile, "# A.\na: 1\n")
	write(t, root, readmeFile, "# Chart\n")

	err := writeReadme(root)

	if err == nil || !strings.Contains(err.Error(), "must surround the table") {
		t.Errorf("got error %v", err)
	}
}

// TestCopiesFollowTheirSources holds that a copy whose source is gone is removed, and that a
// missing source is an error.
func TestCopiesFollowTheirSources(t *testing.T) {
	root := t.TempDir()
	for _, c := range copied {
		write(t, root, strings.ReplaceAll(c.from, "*", "some"), "content")
	}
	stale := filepath.Join(root, chart, "files", "kinds", "gone", "crd.yaml")
	write(t, root, chart+"/files/kinds/gone/crd.yaml", "old")

	if err := copyChartFiles(root); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the copy without a source is there (%v)", err)
	}
	got, err := os.ReadFile(filepath.Join(root, chart, "files", "kinds", "some", "crd.yaml"))
	if err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.RemoveAll(filepath.Join(root, crds)); err != nil {
		t.Fatal(err)
	}
	if err := copyChartFiles(root); err == nil || !strings.Contains(err.Error(), "no file matches "+crds) {
		t.Errorf("got error %v", err)
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	if err := writeFile(filepath.Join(root, name), []byte(content)); err != nil {
		t.Fatal(err)
	}
}
