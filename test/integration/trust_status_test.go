// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// patchStatus changes the status of a DemoApp as a tenant with that permission.
func patchStatus(t *testing.T, tenant *apps.Tenant, ns *apps.Namespace, name string, status map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tenant.Demo.DemoApps(ns.Name).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// inventoryEntry is an object in the form of the inventory.
func inventoryEntry(apiVersion, kind string, object metav1.Object) map[string]any {
	entry := map[string]any{"apiVersion": apiVersion, "kind": kind, "name": object.GetName(), "uid": string(object.GetUID())}
	if object.GetNamespace() != "" {
		entry["namespace"] = object.GetNamespace()
	}
	return entry
}

// TestForgedInventoryIsNotDeleted adds foreign objects to the inventory, and deletes the DemoApp.
func TestForgedInventoryIsNotDeleted(t *testing.T) {
	t.Parallel()
	records := []struct {
		name string
		do   func(t *testing.T, ns *apps.Namespace, tenant *apps.Tenant)
	}{
		{"records as they are", func(*testing.T, *apps.Namespace, *apps.Tenant) {}},
		{"records deleted", func(t *testing.T, ns *apps.Namespace, tenant *apps.Tenant) {
			t.Helper()
			err := tenant.Client.CoreV1().Secrets(ns.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "owner=helm,name=web"})
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"records destroyed", func(t *testing.T, _ *apps.Namespace, tenant *apps.Tenant) {
			t.Helper()
			tenant.UpdateRecord("web", 1, func(secret *corev1.Secret) { secret.Data["release"] = []byte("AAAA") })
		}},
	}
	objects := []struct {
		name  string
		entry func(others *victim, ns *apps.Namespace) map[string]any
	}{
		{"ConfigMap of others", func(others *victim, _ *apps.Namespace) map[string]any {
			return inventoryEntry("v1", "ConfigMap", others.Objects("web").ConfigMap)
		}},
		{"Deployment of others", func(others *victim, _ *apps.Namespace) map[string]any {
			return inventoryEntry("apps/v1", "Deployment", others.Objects("web").Deployment)
		}},
		{"ConfigMap of others without its namespace", func(others *victim, _ *apps.Namespace) map[string]any {
			entry := inventoryEntry("v1", "ConfigMap", others.Objects("web").ConfigMap)
			delete(entry, "namespace")
			return entry
		}},
		{"ConfigMap of others without its UID", func(others *victim, _ *apps.Namespace) map[string]any {
			entry := inventoryEntry("v1", "ConfigMap", others.Objects("web").ConfigMap)
			delete(entry, "uid")
			return entry
		}},
		{"Namespace", func(others *victim, _ *apps.Namespace) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": others.Name}
		}},
		{"kind that does not exist", func(others *victim, _ *apps.Namespace) map[string]any {
			return map[string]any{"apiVersion": "none.example.com/v1", "kind": "None", "namespace": others.Name, "name": "web"}
		}},
		{"object of no release", func(_ *victim, ns *apps.Namespace) map[string]any {
			return inventoryEntry("v1", "ConfigMap", ns.Objects("neighbor").ConfigMap)
		}},
	}
	for _, record := range records {
		for _, object := range objects {
			t.Run(record.name+" "+object.name, func(t *testing.T) {
				t.Parallel()
				others := newVictim(t)
				ns := newNamespace(t)
				tenant := ns.AddTenant("demoapps", "demoapps/status")
				neighbor := createNeighbor(t, ns, tenant, nil)
				ns.Create(apps.WithoutPods("web"))
				ns.AwaitReady("web")
				ns.Change("web", suspend(true))
				app := ns.Await("web", "suspended", func(app *v1alpha1.DemoApp) bool { return !apps.IsAbsent(app, releasev1alpha1.ConditionSuspended) })
				ns.AwaitQuiet(quiet)

				inventory := []any{object.entry(others, ns)}
				for _, entry := range app.Status.Inventory {
					inventory = append(inventory, entry)
				}
				patchStatus(t, tenant, ns, "web", map[string]any{"inventory": inventory})
				record.do(t, ns, tenant)
				ns.Delete("web")
				ns.AwaitGone("web")

				assertNothingInstalled(t, ns, "web")
				others.assertUntouched()
				assertSameContents(t, neighbor, contentsNamed(ns, "neighbor"))
			})
		}
	}
}

// TestForgedStatusDoesNotVouchForRecord forges a release record and the matching status.
func TestForgedStatusDoesNotVouchForRecord(t *testing.T) {
	t.Parallel()
	others := newVictim(t)
	ns := newNamespace(t)
	tenant := ns.AddTenant("demoapps", "demoapps/status")
	ns.Create(apps.WithoutPods("web"))
	app := ns.AwaitReady("web")
	ns.AwaitQuiet(quiet)

	status := map[string]any{"lastGoodRevision": 2}
	tenant.AddRecord("web", 1, 2, func(content map[string]any) {
		addTo(content, others, ns, mixed...)
		content["namespace"] = others.Name
		status["appliedManifestHash"] = hashOf(content["manifest"].(string))
	})
	deployed := app.Status.DeployedRelease.DeepCopy()
	deployed.Revision = 2
	status["deployedRelease"] = deployed
	inventory := []any{inventoryEntry("v1", "ConfigMap", others.Objects("web").ConfigMap)}
	for _, entry := range app.Status.Inventory {
		inventory = append(inventory, entry)
	}
	status["inventory"] = inventory
	patchStatus(t, tenant, ns, "web", status)
	tenant.DeleteService("web")
	ns.AwaitQuiet(quiet)
	others.assertUntouched()
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	ns.AwaitFromChart("web")
	ns.Delete("web")
	ns.AwaitGone("web")

	assertNothingInstalled(t, ns, "web")
	others.assertUntouched()
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
