// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestExamples applies each example without changes.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples := map[string][]string{
		"demoapp.yaml":            {"demoapp-sample"},
		"demoapp-apikeyfrom.yaml": {"demoapp-with-secret"},
		"chart-rollout.yaml":      {"first-in-line", "second-in-line"},
		"drift-policy.yaml":       {"kept-clean"},
		"drift-warn.yaml":         {"only-watched"},
		"remediation.yaml":        {"careful"},
		"values.yaml":             {"demoapp-with-values"},
		"waitfor.yaml":            {"app-a", "app-b"},
		"reconcile-now.yaml":      {"on-request"},
		"upgrade-window.yaml":     {"night-shift"},
		"license.yaml":            {"licensed"},
		"ingress.yaml":            {"demoapp-outside"},
		"validation.yaml":         {"port-holder"},
	}
	for file, names := range examples {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if err := shared.ApplyFiles(t.Context(), ns.Name, "artifacts/examples/"+file); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				ns.AwaitReady(name)
			}
		})
	}
}

// TestPodsMeetRestrictedProfile installs into a namespace that enforces the restricted profile.
func TestPodsMeetRestrictedProfile(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	_, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), ns.Name, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Create(apps.Named("web"))
	if app := ns.AwaitReady("web"); app.Status.ReadyReplicas != 1 {
		t.Errorf("%d pods are ready", app.Status.ReadyReplicas)
	}
}
