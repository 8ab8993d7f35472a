// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package install

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// TestChartWebhook installs the webhook of WebApps with the chart. The operator issues its
// certificates under the permissions of the chart, and the API server refuses a WebApp by the
// configurations of the chart.
func TestChartWebhook(t *testing.T) {
	createNamespace(t, namespace)
	removeCRDsAtEnd(t)
	t.Cleanup(func() {
		kubectl(context.WithoutCancel(t.Context()), t, "delete", "--ignore-not-found", "--filename=artifacts/kinds/webapp/crd.yaml")
	})
	helmInstall(t, loadChart(t), parse[values](t, "{kinds: [webapp], webhook: {enabled: true, approvedRegistries: [docker.io/library]}}"))
	address := cluster.FreeAddress(t.Context(), t)
	callProcess(t, address)

	cluster.StartInstalledOperator(t.Context(), t, shared, deployment, "--webhook-bind-address="+address, "--webhook-hosts=127.0.0.1")

	client := shared.Dynamic.Resource(examplev1.SchemeGroupVersion.WithResource("webapps")).Namespace(shared.Namespace(t))
	webApp := &object{Object: map[string]any{"spec": map[string]any{"replicas": int64(1), "image": "quay.io/any/image"}}}
	webApp.SetGroupVersionKind(examplev1.SchemeGroupVersion.WithKind("WebApp"))
	webApp.SetName("web")
	cluster.Eventually(t.Context(), t, "the WebApp is refused", func(ctx context.Context) (bool, error) {
		_, err := client.Create(ctx, webApp, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "spec.image: image quay.io/any/image is not from an allowed registry"), err
	})
}

// callProcess makes the API server call a process on this machine. There are no pods behind the
// Service here. All other fields of the configurations are as in the chart.
func callProcess(t *testing.T, address string) {
	t.Helper()
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		client := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
		live, err := client.Get(t.Context(), "webapp-admission", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		webhooks, _, err := unstructured.NestedSlice(live.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range webhooks {
			webhook, _ := item.(map[string]any)
			path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil || !found {
				t.Fatalf("no path of a Service in %v (%v)", webhook, err)
			}
			webhook["clientConfig"] = map[string]any{"url": "https://" + address + path}
		}
		if err := unstructured.SetNestedSlice(live.Object, webhooks, "webhooks"); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
