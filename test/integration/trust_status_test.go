// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
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

// TestManifestHashDoesNotConfirmGuessedKey guesses the key offline, with all public data. A
// manifest with the guessed key must not have the hash of the status. Only data that the tenant may
// not read may reveal the key. The first test that uses the helm command builds it, which takes
// most of the time.
func TestManifestHashDoesNotConfirmGuessedKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.WithoutPods("web"))
	app := ns.AwaitReady("web")
	manifest := helm(t, ns, "get", "manifest", "web")
	stored := decodeRecord(t, ns.Records("web")[0]).Manifest
	secret := base64.StdEncoding.EncodeToString([]byte(app.Spec.APIKey))
	if !strings.Contains(stored, secret) {
		t.Fatalf("the manifest does not have the key:\n%s", stored)
	}

	for form, text := range map[string]string{
		"stored": stored, "printed": manifest, "without the last line break": strings.TrimSuffix(stored, "\n"),
		"decoded": strings.ReplaceAll(stored, secret, app.Spec.APIKey),
	} {
		if hashOf(text) == app.Status.AppliedManifestHash {
			t.Errorf("the hash confirms the key: it is that of the manifest, %s", form)
		}
	}
}

// TestManifestHashIsIndependentOfKey changes only the key. The chart's short checksum is the same
// for both keys, and the hash must be, too.
func TestManifestHashIsIndependentOfKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.WithoutPods("web")
	one, other := keysOfOneChecksum(ns.Name + "/web/")
	app.Spec.APIKey = one
	ns.Create(app)
	first := ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.APIKey = other })
	second := ns.AwaitReady("web")

	if apps.Revision(second) != 2 || string(ns.Objects("web").Secret.Data["apiKey"]) != other {
		t.Errorf("the key was not changed: revision %d", apps.Revision(second))
	}
	same := first.Status.AppliedManifestHash == second.Status.AppliedManifestHash
	if samePublic := publicManifest(t, ns, 1) == publicManifest(t, ns, 2); same != samePublic {
		t.Errorf("the hash is the same: %t, what is public is the same: %t", same, samePublic)
	}
}

// checksumLength is the number of hash digits that the chart shows to readers of Deployments.
const checksumLength = 8

// keysOfOneChecksum returns two keys with the prefix whose hashes begin alike.
func keysOfOneChecksum(prefix string) (one, other string) {
	seen := map[string]string{}
	for i := 0; ; i++ {
		key := fmt.Sprintf("key-%08d", i)
		checksum := hashOf(prefix + key)[:checksumLength]
		if earlier, ok := seen[checksum]; ok {
			return earlier, key
		}
		seen[checksum] = key
	}
}

// publicManifest returns the manifest of a revision without its Secrets.
func publicManifest(t *testing.T, ns *apps.Namespace, revision int) string {
	t.Helper()
	for _, record := range ns.Records("web") {
		if record.Revision != revision {
			continue
		}
		var public []string
		for document := range strings.SplitSeq(decodeRecord(t, record).Manifest, "---\n") {
			if !strings.Contains(document, "kind: Secret\n") {
				public = append(public, document)
			}
		}
		return strings.Join(public, "---\n")
	}
	t.Fatalf("no revision %d", revision)
	return ""
}

// TestFailureDigestDoesNotConfirmGuessedKey guesses the key offline, from the digest with which the
// status identifies a failed spec. All other inputs of a release are public.
func TestFailureDigestDoesNotConfirmGuessedKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.WithoutPods("web")
	app.Spec.Values = badLabel()
	ns.Create(app)
	failed := ns.Await("web", "failed", func(app *v1alpha1.DemoApp) bool { return app.Status.Failures != nil })
	chart, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := json.Marshal(struct {
		Release, Chart string
		Values         map[string]any
		Owner          metav1.OwnerReference
	}{ns.Name + "/web", chart.Digest(), decodeRecord(t, ns.Records("web")[0]).Config, ns.Objects("web").Secret.OwnerReferences[0]})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(inputs, []byte(app.Spec.APIKey)) {
		t.Fatalf("the inputs do not have the key: %s", inputs)
	}

	const shortest = 16
	if got := failed.Status.Failures.Inputs; len(got) >= shortest && strings.HasPrefix(hashOf(string(inputs)), got) {
		t.Error("the status confirms the key: status.failures.inputs is the hash of the inputs")
	}
}
