// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// newerVersion is the chart version of the newer operator.
const newerVersion = "99.0.0"

// TestNewerChartIsRolledOut builds a second operator.
func TestNewerChartIsRolledOut(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	ns.Create(apps.Named("web"))
	before := ns.AwaitReady("web")
	operator.Stop()

	cluster.StartOperatorBinary(t.Context(), t, shared, newerOperator(t))
	app := ns.Await("web", "deployed with the newer chart", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && app.Status.DeployedRelease.ChartVersion == newerVersion
	})
	if apps.Revision(app) != 2 || app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonChartChanged {
		t.Errorf("revision %d because of %s", apps.Revision(app), app.Status.LastUpgradeReason)
	}
	if app.Generation != before.Generation {
		t.Errorf("the spec was changed: generation %d", app.Generation)
	}
	if got := ns.Objects("web").Service.Labels["helm.sh/chart"]; got != "demo-app-"+newerVersion {
		t.Errorf("the Service was made by chart %s", got)
	}
	assertRecords(t, ns, []string{"web"}, "v1 superseded", "v2 deployed")
}

// newerOperator builds an operator with another version of the chart, and returns its binary. The chart does not render
// for DemoApps whose names begin with "bad", unless their pods are annotated as fixed. The pods of DemoApps whose names
// begin with "slow" do not start.
func newerOperator(t *testing.T) string {
	t.Helper()
	return variantOperator(t, map[string]func(content string) string{
		"Chart.yaml": func(content string) string {
			return regexp.MustCompile(`(?m)^version: .*$`).ReplaceAllString(content, "version: "+newerVersion)
		},
		filepath.Join("templates", "service.yaml"): func(content string) string {
			return content + `{{- if and (hasPrefix "bad" .Release.Name) (not .Values.podAnnotations.fixed) }}{{ fail "this chart is untested" }}{{ end }}` + "\n"
		},
		filepath.Join("templates", "deployment.yaml"): func(content string) string {
			return strings.Replace(content, ".Values.image ", `(ternary "registry.invalid/slow:1" .Values.image (hasPrefix "slow" .Release.Name)) `, 1)
		},
	})
}

// variantOperator builds an operator with changed files of the embedded chart, and returns its binary.
func variantOperator(t *testing.T, changes map[string]func(content string) string) string {
	t.Helper()
	dir, chart := t.TempDir(), filepath.Join(shared.Root(), "pkg", "helm", "charts", "demo-app")
	replaced := map[string]string{}
	for file, change := range changes {
		content, err := os.ReadFile(filepath.Join(chart, file))
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(changed, []byte(change(string(content))), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(chart, file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "operator")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlayFile, "-o", binary, "./cmd/demoapp-controller")
	build.Dir = shared.Root()
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the variant of the operator: %v\n%s", err, output)
	}
	return binary
}
