// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// helmBinary returns the path of the helm command, which is built once.
var helmBinary = sync.OnceValues(func() (string, error) { return cluster.BuildHelm(context.Background(), workDir) })

// helm runs the helm command as an administrator, and returns its output.
func helm(t *testing.T, ns *apps.Namespace, args ...string) string {
	t.Helper()
	return helmAs(t, shared.Kubeconfig(), ns, args...)
}

// helmAs runs the helm command as the user of a kubeconfig file.
func helmAs(t *testing.T, kubeconfig string, ns *apps.Namespace, args ...string) string {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, append(args, "--namespace="+ns.Name, "--kubeconfig="+kubeconfig)...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}

// helmJSON runs a helm command that prints JSON.
func helmJSON[T any](t *testing.T, ns *apps.Namespace, args ...string) T {
	t.Helper()
	output := helm(t, ns, append(args, "--output=json")...)
	var parsed T
	if err := json.Unmarshal([]byte(output), &parsed); err != nil {
		t.Fatalf("helm %s printed %q: %v", strings.Join(args, " "), output, err)
	}
	return parsed
}

// helmRevision is the output of helm list and helm history about a revision.
type helmRevision struct {
	Name     string `json:"name"`
	Revision any    `json:"revision"`
	Status   string `json:"status"`
	Chart    string `json:"chart"`
}

func TestHelmCommandReadsReleases(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	app := ns.AwaitReady("web")
	chart := "demo-app-" + app.Status.DeployedRelease.ChartVersion

	list := helmJSON[[]helmRevision](t, ns, "list")
	if want := []helmRevision{{Name: "web", Revision: "2", Status: "deployed", Chart: chart}}; !cmp.Equal(want, list) {
		t.Errorf("helm list: %s", cmp.Diff(want, list))
	}
	history := helmJSON[[]helmRevision](t, ns, "history", "web")
	if want := []helmRevision{
		{Revision: 1.0, Status: "superseded", Chart: chart},
		{Revision: 2.0, Status: "deployed", Chart: chart},
	}; !cmp.Equal(want, history) {
		t.Errorf("helm history: %s", cmp.Diff(want, history))
	}
	values := helmJSON[map[string]any](t, ns, "get", "values", "web")
	if want := map[string]any{
		"apiKey": "key-of-web", "image": "nginx:1.27-alpine", "message": "Second", "replicaCount": 1.0, "nodeName": "",
		"service": map[string]any{"type": "ClusterIP", "port": 80.0, "nodePort": 0.0},
		"ingress": map[string]any{
			"enabled": false, "host": "", "className": "", "tls": map[string]any{"enabled": false, "secretName": ""},
		},
		"httpRoute": map[string]any{"enabled": false, "host": "", "gateway": map[string]any{"name": "", "namespace": ""}},
	}; !cmp.Equal(want, values) {
		t.Errorf("helm get values: %s", cmp.Diff(want, values))
	}
	manifest := helm(t, ns, "get", "manifest", "web")
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "Secret"} {
		if !strings.Contains(manifest, "kind: "+kind+"\n") {
			t.Errorf("helm get manifest has no %s:\n%s", kind, manifest)
		}
	}
	status := helmJSON[struct {
		Info struct {
			Status string `json:"status"`
			Notes  string `json:"notes"`
		} `json:"info"`
	}](t, ns, "status", "web")
	if status.Info.Status != "deployed" || !strings.Contains(status.Info.Notes, "http://web."+ns.Name+".svc") {
		t.Errorf("helm status: %+v", status)
	}
}

// TestReleaseChangedByHand changes releases with the helm command. Each release returns to its
// desired state. DemoApps are paused during an uninstall, because the command would also delete
// objects that the operator restores between the steps of the command.
func TestReleaseChangedByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		command func(t *testing.T, ns *apps.Namespace)
		// records are the final release records.
		records []string
	}{
		{
			name: "rollback",
			command: func(t *testing.T, ns *apps.Namespace) {
				t.Helper()
				helm(t, ns, "rollback", "web", "1")
			},
			records: []string{"web v1 superseded", "web v2 superseded", "web v3 superseded", "web v4 deployed"},
		},
		{
			name: "upgrade",
			command: func(t *testing.T, ns *apps.Namespace) {
				t.Helper()
				chart := filepath.Join(shared.Root(), "pkg", "helm", "charts", "demo-app")
				helm(t, ns, "upgrade", "web", chart, "--reuse-values", "--set=message=By hand", "--set=replicaCount=3")
			},
			records: []string{"web v1 superseded", "web v2 superseded", "web v3 superseded", "web v4 deployed"},
		},
		{
			name: "uninstall",
			command: func(t *testing.T, ns *apps.Namespace) {
				t.Helper()
				whilePaused(t, ns, func() { helm(t, ns, "uninstall", "web") })
			},
			records: []string{"web v1 deployed"},
		},
		{
			name: "records deleted",
			command: func(t *testing.T, ns *apps.Namespace) {
				t.Helper()
				err := shared.Client.CoreV1().Secrets(ns.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: "owner=helm,name=web"})
				if err != nil {
					t.Fatal(err)
				}
			},
			records: []string{"web v1 deployed"},
		},
		{
			name: "uninstall that keeps the history",
			command: func(t *testing.T, ns *apps.Namespace) {
				t.Helper()
				whilePaused(t, ns, func() { helm(t, ns, "uninstall", "web", "--keep-history") })
			},
			records: []string{"web v1 superseded", "web v2 superseded", "web v3 deployed"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.Create(apps.Named("web"))
			ns.AwaitReady("web")
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
			ns.AwaitReady("web")
			want := map[string]*unstructured.Unstructured{}
			for _, owned := range ownedKinds {
				want[owned.kind] = get(t, shared.Dynamic.Resource(owned.resource).Namespace(ns.Name), "web")
			}

			test.command(t, ns)
			ns.Await("web", "as the spec says", func(app *v1alpha1.DemoApp) bool {
				return apps.IsReady(app) && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted) &&
					app.Status.LastUpgradeReason == releasev1alpha1.UpgradeReasonDriftDetected
			})
			for _, owned := range ownedKinds {
				awaitSame(t, shared.Dynamic.Resource(owned.resource).Namespace(ns.Name), want[owned.kind], time.Now())
			}
			if !wasDrifted(ns, "web", releasev1alpha1.ReasonReleaseChanged) {
				t.Error("Drifted never said that the release was changed")
			}
			ns.AwaitQuiet(quiet)
			assertRecords(t, ns, test.records...)
			// A repair during the last upgrade has the same reason, so the status awaited above may
			// be older than the command.
			app := ns.AwaitReady("web")
			if records := ns.Records("web"); apps.Revision(app) != int64(records[len(records)-1].Revision) {
				t.Errorf("the status says revision %d", apps.Revision(app))
			}
		})
	}
}

// whilePaused calls do while the operator changes nothing of the DemoApp "web".
func whilePaused(t *testing.T, ns *apps.Namespace, do func()) {
	t.Helper()
	pause := func(value string) {
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, apimeta.AnnotationPaused, value)
		if _, err := ns.Demo.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pause("true")
	ns.Await("web", "paused", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, apimeta.ConditionSuspended, metav1.ConditionTrue, apimeta.ReasonSuspendedByAnnotation)
	})
	do()
	pause("false")
}

// wasDrifted reports whether the condition Drifted was ever True for this reason.
func wasDrifted(ns *apps.Namespace, name, reason string) bool {
	return slices.ContainsFunc(ns.Versions(name), func(version apps.Version) bool {
		return apps.Has(version.App, releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason)
	})
}
