// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// newerVersion is the version of the chart that the operator of the day after brings.
const newerVersion = "99.0.0"

func TestNewerChartIsRolledOut(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	ns.Create(apps.Named("web"))
	before := ns.AwaitReady("web")
	operator.Stop()

	startNewer(t)
	app := ns.Await("web", "deployed with the newer chart", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && app.Status.DeployedRelease.ChartVersion == newerVersion
	})
	if apps.Revision(app) != 2 || app.Status.LastUpgradeReason != v1alpha1.UpgradeReasonChartChanged {
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

// startNewer starts an operator with another version of the chart embedded, until the test ends.
func startNewer(t *testing.T) {
	t.Helper()
	chart := filepath.Join(shared.Root(), "pkg", "helm", "charts", "demo-app", "Chart.yaml")
	content, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	for i := range lines {
		if strings.HasPrefix(lines[i], "version:") {
			lines[i] = "version: " + newerVersion
		}
	}
	dir := t.TempDir()
	newer, overlay := filepath.Join(dir, "Chart.yaml"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{chart: newer}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{newer: []byte(strings.Join(lines, "\n")), overlay: replace} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary, kubeconfig := filepath.Join(dir, "operator"), filepath.Join(dir, "kubeconfig")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlay, "-o", binary, "./cmd/demoapp-controller")
	build.Dir = shared.Root()
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the newer operator: %v\n%s", err, output)
	}
	if err := shared.WriteServiceAccountKubeconfig(t.Context(), cluster.OperatorNamespace, cluster.OperatorServiceAccount, kubeconfig); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, "--kubeconfig="+kubeconfig,
		"--leader-elect-resource-namespace="+cluster.OperatorNamespace, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The end of the test's context has asked it to end.
		if err := command.Wait(); t.Failed() {
			t.Logf("the newer operator ended (%v):\n%s", err, log.String())
		}
	})
}
