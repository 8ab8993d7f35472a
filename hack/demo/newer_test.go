// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewerChart asserts which files of the chart the overlay replaces, and what the replacements contain.
func TestNewerChart(t *testing.T) {
	chart := filepath.Join("..", "..", chartFolder)
	overlay, err := newerChart(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Replace map[string]string }
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"Chart.yaml":               {"name: demo-app\n", "\nversion: " + newerVersion + "\n"},
		"templates/configmap.yaml": {"demo-app.indexHTML", "\n---\napiVersion: v1\nkind: ConfigMap\n"},
	} {
		from, err := filepath.Abs(filepath.Join(chart, file))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(got.Replace[from])
		if err != nil {
			t.Errorf("%s is not replaced: %v", from, err)
		}
		for _, part := range want {
			if !strings.Contains(string(content), part) {
				t.Errorf("%s lacks %q:\n%s", file, part, content)
			}
		}
	}
	if len(got.Replace) != 2 {
		t.Errorf("overlay replaces %v, want two files", got.Replace)
	}
}

func TestNewerChartOfEmptyFolder(t *testing.T) {
	if overlay, err := newerChart(t.TempDir(), t.TempDir()); err == nil {
		t.Errorf("newerChart() = %s, want an error", overlay)
	}
}
