// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestFileChanges adds an entry to the watches file, changes its chart, breaks the file, and
// repairs it without the entry.
func TestFileChanges(t *testing.T) {
	s := newSpace(t)
	newer := newerChart(t)
	added := func(chart string) string {
		return "- {group: caches.example.com, version: v1, kind: Added, chart: " + chart + "}\n"
	}

	writeFile(t, entries+added(chart))
	s.create("Added", "a", map[string]any{"size": 3})
	s.await("Added", "a", "Ready True Healthy", "Deployed True InstallSuccessful")

	writeFile(t, entries+added(newer))
	live := s.awaitThat("Added", "a", "has the newer chart", func(object *unstructured.Unstructured) bool {
		return field(object, "status", "deployedRelease", "chartVersion") == "2.0.0"
	})
	s.assertConditions(live, "Deployed True UpgradeSuccessful")

	writeFile(t, entries+added("no/such/chart"))
	awaitMetric(t, "watches_file_valid 0")
	event := awaitEvent(t, cluster.OperatorNamespace, "demoapp-controller", "WatchesFileInvalid")
	for _, text := range []string{event.Note, operator.Log()} {
		if !strings.Contains(text, "(caches.example.com/v1 Added): chart: ") {
			t.Errorf("the error of the file is not in:\n%.2000s", text)
		}
	}
	s.set("Added", "a", map[string]any{"size": 4})
	s.awaitSize("a", "4")
	s.await("Added", "a", "Ready True Healthy")

	writeFile(t, entries)
	awaitMetric(t, "watches_file_valid 1")
	s.assertSilent("a kind without an entry", func() { s.set("Added", "a", map[string]any{"size": 5}) })
	if size := s.size("a"); size != "4" {
		t.Errorf("size without the entry is %q", size)
	}

	writeFile(t, entries+added(newer))
	s.awaitSize("a", "5")
	s.deleteAndWait("Added", "a")
	writeFile(t, entries)
}

// writeFile replaces the watches file of the operator.
func writeFile(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(watchesFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newerChart returns the path of version 2.0.0 of the chart.
func newerChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(shared.Root(), chart))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("apiVersion: v2\nname: cache\nversion: 2.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
