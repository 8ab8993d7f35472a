// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/example/demoapp-controller/test/integration/apps"
)

// forgedHook returns a hook of a release record that replaces an existing object.
func forgedHook(manifest string, events ...string) map[string]any {
	return map[string]any{
		"name": "intruder", "kind": "ConfigMap", "path": "demo-app/templates/intruder.yaml", "manifest": manifest, "events": events,
		"last_run": map[string]any{"phase": ""}, "delete_policies": []string{"before-hook-creation"},
	}
}

// TestForgedHookDoesNotRun adds a hook to a release record, and deletes the DemoApp.
func TestForgedHookDoesNotRun(t *testing.T) {
	t.Parallel()
	objects := []struct {
		name     string
		manifest func(others *victim, own *apps.Namespace) string
	}{
		{"of others", func(others *victim, _ *apps.Namespace) string { return configMapManifest("web", others.Name) }},
		{"elsewhere", func(others *victim, _ *apps.Namespace) string { return configMapManifest("intruder", others.Name) }},
		{"in the own namespace", func(_ *victim, own *apps.Namespace) string { return configMapManifest("intruder", own.Name) }},
		{"without a namespace", func(*victim, *apps.Namespace) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: intruder}\n"
		}},
		{"of the own namespace", func(_ *victim, own *apps.Namespace) string { return configMapManifest("neighbor", own.Name) }},
	}
	for _, event := range []string{"pre-delete", "post-delete"} {
		for _, way := range forgeRecord {
			for _, object := range objects {
				t.Run(fmt.Sprintf("%s %s %s", event, way.name, object.name), func(t *testing.T) {
					t.Parallel()
					others := newVictim(t)
					ns := newNamespace(t)
					tenant := ns.AddTenant("demoapps")
					neighbor := createNeighbor(t, ns, tenant, nil)
					ns.Create(apps.WithoutPods("web"))
					ns.AwaitReady("web")

					way.do(tenant, func(content map[string]any) {
						content["hooks"] = []any{forgedHook(object.manifest(others, ns), event)}
					})
					ns.Delete("web")
					ns.AwaitGone("web")

					assertNothingInstalled(t, ns, "web")
					others.assertUntouched()
					assertNothingForged(t, ns)
					assertSameContents(t, neighbor, contentsNamed(ns, "neighbor"))
				})
			}
		}
	}
}

// writeChart writes a chart with these templates, and returns its folder.
func writeChart(t *testing.T, templates map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "mychart")
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: mychart\nversion: 1.0.0\n"}
	for name, content := range templates {
		files[filepath.Join("templates", name)] = content
	}
	if err := os.MkdirAll(filepath.Join(root, "templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
