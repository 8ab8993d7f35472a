// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/monitoring"
)

// root is the root of the repository.
const root = "../../.."

// demoApps is the resource of DemoApps.
var demoApps = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}

// TestDashboardsHaveData takes DemoApps through each state, and expects data in the panels of both
// dashboards. Of the alerts, only that for Stalled resources is pending.
func TestDashboardsHaveData(t *testing.T) {
	address := cluster.FreeAddress(t.Context(), t)
	server, err := monitoring.StartServer(t.Context(), root, t.TempDir(), time.Second, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	cluster.StartOperator(t.Context(), t, shared, "--metrics-bind-address="+address)
	namespace := shared.Namespace(t)

	takeThroughStates(t, namespace)
	repeatOperations(t, server, namespace)

	for _, name := range monitoring.Dashboards {
		dashboard, err := monitoring.ReadDashboard(root, name)
		if err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t.Context(), t, "data in the dashboard "+name, func(ctx context.Context) (bool, error) {
			from, to, err := server.Seen(ctx)
			if err != nil {
				return false, err
			}
			panels, err := server.Read(ctx, dashboard, from, to, 10*time.Second)
			if empty := monitoring.Empty(panels); err == nil && len(empty) > 0 {
				return false, fmt.Errorf("panels without data: %q", empty)
			}
			return err == nil, err
		})
	}
	cluster.Eventually(t.Context(), t, "the alert for Stalled resources", func(context.Context) (bool, error) {
		alerts := server.Alerts()
		return slices.Equal(alerts, []string{"DemoAppControllerResourcesStalled"}), fmt.Errorf("pending alerts: %q", alerts)
	})
}

// takeThroughStates makes DemoApps that are ready, held, Stalled and in deletion.
func takeThroughStates(t *testing.T, namespace string) {
	t.Helper()
	taken := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "stalled"},
	}}
	if err := shared.ApplyObject(t.Context(), namespace, taken); err != nil {
		t.Fatal(err)
	}
	ready, leaving := demoApp("ready", nil), demoApp("leaving", nil)
	leaving.SetFinalizers([]string{"example.com/foreign"})
	for _, app := range []*unstructured.Unstructured{
		ready, leaving, demoApp("held", map[string]any{"suspend": true}), demoApp("stalled", nil),
	} {
		if err := shared.ApplyObject(t.Context(), namespace, app); err != nil {
			t.Fatal(err)
		}
	}
	shared.AwaitReady(t.Context(), t, namespace, ready)
	shared.AwaitReady(t.Context(), t, namespace, leaving)

	apps := shared.Dynamic.Resource(demoApps).Namespace(namespace)
	if err := apps.Delete(t.Context(), "leaving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := apps.Patch(context.WithoutCancel(t.Context()), "leaving", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("remove the finalizer: %v", err)
		}
	})
}

// repeatOperations upgrades a DemoApp and creates another one, which drifts, and again after
// Prometheus has seen the first time. A rate needs two values.
func repeatOperations(t *testing.T, server *monitoring.Server, namespace string) {
	t.Helper()
	for round := 1; round <= 2; round++ {
		upgraded := demoApp("ready", map[string]any{"message": fmt.Sprintf("Hello %d", round)})
		later := demoApp(fmt.Sprintf("later-%d", round), nil)
		for _, app := range []*unstructured.Unstructured{upgraded, later} {
			if err := shared.ApplyObject(t.Context(), namespace, app); err != nil {
				t.Fatal(err)
			}
		}
		// The DemoApps "ready" and "leaving" were Ready before.
		awaitData(t, server, fmt.Sprintf(`helm_operations_total{action="upgrade", result="success"} >= %d and on (job)
			controller_time_to_ready_seconds_count{controller="demoapp"} == %d`, round, 2+round))

		// Drift of the same object again would be flapping.
		err := shared.Client.CoreV1().Services(namespace).Delete(t.Context(), later.GetName(), metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		awaitData(t, server, fmt.Sprintf(`controller_drift_corrected_total{controller="demoapp"} == %d`, round))
	}
}

// awaitData waits until an expression has a value.
func awaitData(t *testing.T, server *monitoring.Server, expr string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, expr, func(ctx context.Context) (bool, error) {
		now := time.Now()
		found, err := server.Query(ctx, expr, now, now, time.Second)
		return len(found) > 0, err
	})
}

// demoApp returns a DemoApp with further fields of its spec.
func demoApp(name string, fields map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"message": "Hello", "apiKey": "key-of-" + name}
	for field, value := range fields {
		spec[field] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1alpha1", "kind": "DemoApp",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}
