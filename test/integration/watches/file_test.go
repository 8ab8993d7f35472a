// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestFileChanges adds an entry to the watches file, changes its chart, breaks the file, and
// repairs it without the entry. Then the entry waits for a variable, gets another version of the API, and
// overrides that reach a few custom resources at a time.
func TestFileChanges(t *testing.T) {
	s := newSpace(t)
	newer := newerChart(t)
	added := func(chart string, fields ...string) string {
		return "- {group: caches.example.com, kind: Added, chart: " + strings.Join(append([]string{chart, "version: v1"}, fields...), ", ") + "}\n"
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

	writeFile(t, entries+added(newer, `overrideValues: {size: "${PROBE_REGG}"}`))
	waiting := s.await("Added", "a", "Ready False ValuesInvalid", "Irreconcilable True ErrorGettingValues")
	s.assertMessage(waiting, "Ready", "environment variables that are not set")
	awaitMetric(t, "watches_file_waiting_entries 1")
	s.create("Cache", "other", map[string]any{"size": 3})
	s.await("Cache", "other", "Ready True Healthy")
	if size := s.size("a"); size != "5" {
		t.Errorf("size while the entry waits is %q", size)
	}

	installCRD(t, definition{kind: "Added", versions: []string{"v1", "v2"}})
	writeFile(t, entries+strings.Replace(added(newer), "version: v1", "version: v2", 1))
	live = s.await("Added", "a", "Ready True Healthy", "Irreconcilable False Reconciled")
	awaitMetric(t, `controller_resources{controller="added.v2.caches.example.com",state="ready"} 1`)
	before := field(live, "status", "deployedRelease", "revision")
	s.assertSilent("another version of the API", func() {})
	live, err := s.of("Added").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now := field(live, "status", "deployedRelease", "revision"); now != before {
		t.Errorf("revision with another version of the API is %s, want %s", now, before)
	}

	// Without controllers of Deployments, these never become ready.
	for i := range 6 {
		name := fmt.Sprintf("slow-%d", i)
		labels := map[string]any{"app": name}
		deployment := object("apps/v1", "Deployment", "", name)
		deployment["spec"] = map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "registry.invalid/a:1"}}},
			},
		}
		s.create("Added", name, map[string]any{"size": 3, "extra": []any{deployment}})
		s.await("Added", name, "Ready False Progressing", "Deployed True InstallSuccessful")
	}
	writeFile(t, entries+added(newer, `overrideValues: {size: "8"}`, "rollout: {maxConcurrent: 2}"))
	for state, objects := range map[string]int{"queued": 4, "active": 2, "failed": 0} {
		awaitMetric(t, fmt.Sprintf("controller_rollouts{controller=%q,state=%q} %d", "added.v1.caches.example.com", state, objects))
	}
	s.awaitSize("a", "8")
	changed := 0
	for i := range 6 {
		if s.size(fmt.Sprintf("slow-%d", i)) == "8" {
			changed++
		}
	}
	if changed != 2 {
		t.Errorf("%d of 6 have the new override, want 2", changed)
	}
	for i := range 6 {
		s.deleteAndWait("Added", fmt.Sprintf("slow-%d", i))
	}
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
