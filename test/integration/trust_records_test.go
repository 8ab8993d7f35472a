// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// forgeRecord forges the manifest of the deployed revision as a tenant.
var forgeRecord = []struct {
	name string
	do   func(tenant *apps.Tenant, change func(content map[string]any))
}{
	{"edited record", func(tenant *apps.Tenant, change func(map[string]any)) { tenant.EditRecord("web", 1, change) }},
	{"newer record", func(tenant *apps.Tenant, change func(map[string]any)) { tenant.AddRecord("web", 1, 2, change) }},
}

// TestForgedManifestIsNotAppliedOnDrift adds an object to a stored manifest, and causes drift.
func TestForgedManifestIsNotAppliedOnDrift(t *testing.T) {
	t.Parallel()
	for _, way := range forgeRecord {
		for _, forged := range forgeries {
			t.Run(way.name+" "+forged.name, func(t *testing.T) {
				t.Parallel()
				others := newVictim(t)
				others.dropForgedNamespace()
				ns := newNamespace(t)
				tenant := ns.AddTenant("demoapps")
				ns.Create(apps.WithoutPods("web"))
				ns.AwaitReady("web")

				way.do(tenant, func(content map[string]any) { addTo(content, others, ns, forged) })
				tenant.DeleteService("web")
				ns.AwaitQuiet(quiet)
				tenant.DeleteService("web") // The operator may have corrected the first drift before it saw the record.

				ns.AwaitQuiet(quiet)
				others.assertUntouched()
				assertNothingForged(t, ns)
				ns.AwaitFromChart("web")
			})
		}
	}
}

// TestForgedManifestIsNotUninstalled deletes a DemoApp whose stored manifest has an object in
// another namespace.
func TestForgedManifestIsNotUninstalled(t *testing.T) {
	t.Parallel()
	for _, way := range forgeRecord {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			others := newVictim(t)
			ns := newNamespace(t)
			tenant := ns.AddTenant("demoapps")
			neighbor := createNeighbor(t, ns, tenant, nil)
			ns.Create(apps.WithoutPods("web"))
			ns.AwaitReady("web")
			ns.Change("web", suspend(true))

			way.do(tenant, func(content map[string]any) {
				addTo(content, others, ns, privilegedDeployment, foreignConfigMap, listElsewhere, forgedNamespace)
				content["manifest"] = fmt.Sprintf("%s---\n%s", content["manifest"], configMapManifest("neighbor", ns.Name))
			})
			ns.Delete("web")
			ns.AwaitGone("web")

			assertNothingInstalled(t, ns, "web")
			others.assertUntouched()
			assertSameContents(t, neighbor, contentsNamed(ns, "neighbor"))
		})
	}
}

// TestSecretLabeledAsRecordIsIgnored labels Secrets as records of a release.
func TestSecretLabeledAsRecordIsIgnored(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(secret *corev1.Secret)
	}{
		{"other name", func(secret *corev1.Secret) { secret.Name = "forged-record" }},
		{"other name and type", func(secret *corev1.Secret) { secret.Name, secret.Type = "forged-record", corev1.SecretTypeOpaque }},
		{"name of another release", func(secret *corev1.Secret) { secret.Name = apps.RecordName("other", 2) }},
		{"revision that has no successor", func(secret *corev1.Secret) { secret.Labels["version"] = "9223372036854775807" }},
		{"high revision", func(secret *corev1.Secret) { secret.Labels["version"] = "999999999999" }},
		{"revision 0", func(secret *corev1.Secret) { secret.Labels["version"] = "0" }},
		{"no content", func(secret *corev1.Secret) { secret.Data = nil }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			others := newVictim(t)
			others.dropForgedNamespace()
			ns := newNamespace(t)
			tenant := ns.AddTenant("demoapps")
			ns.Create(apps.WithoutPods("web"))
			ns.AwaitReady("web")

			forged := tenant.CopyRecord("web", 1, 2)
			content := apps.DecodeRecord(t, forged)
			addTo(content, others, ns, mixed...)
			forged.Data["release"] = apps.EncodeRecord(t, content)
			test.change(forged)
			_, inputs, _ := strings.Cut(forged.Labels[apps.InputsLabel], "-")
			forged.Labels[apps.InputsLabel] = forged.Labels["version"] + "-" + strings.Split(inputs, "-")[0]
			tenant.CreateRecord(forged)
			tenant.DeleteService("web")
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
			ns.AwaitReady("web")
			if page := ns.Objects("web").ConfigMap.Data["index.html"]; !strings.Contains(page, "Second") {
				t.Errorf("the page is %q", page)
			}
			ns.Delete("web")
			ns.AwaitGone("web")

			for kind := range ns.Objects("web").All() {
				t.Errorf("the %s is left", kind)
			}
			others.assertUntouched()
			assertNothingForged(t, ns)
		})
	}
}

// TestUnwritableRecord keeps the operator from changing or removing a release record. The DemoApp
// is deleted nevertheless.
func TestUnwritableRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(secret *corev1.Secret)
	}{
		{"immutable", func(secret *corev1.Secret) { secret.Immutable = ptr.To(true) }},
		{"with a finalizer", func(secret *corev1.Secret) { secret.Finalizers = []string{"test.example.com/held"} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			tenant := ns.AddTenant("demoapps")
			ns.Create(apps.WithoutPods("web"))
			ns.AwaitReady("web")
			t.Cleanup(func() { releaseRecords(t, ns) })

			tenant.UpdateRecord("web", 1, test.change)
			ns.Delete("web")
			ns.AwaitGone("web")
			for kind := range ns.Objects("web").All() {
				t.Errorf("the %s is left", kind)
			}

			ns.Create(apps.WithoutPods("web"))
			ns.AwaitReady("web")
			ns.Delete("web")
			ns.AwaitGone("web")
		})
	}
}

// releaseRecords removes the finalizers of all release records, which would block the deletion of
// the namespace.
func releaseRecords(t *testing.T, ns *apps.Namespace) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	secrets := shared.Client.CoreV1().Secrets(ns.Name)
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		_, err := secrets.Patch(ctx, list.Items[i].Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// TestHelmAnnotationsInValues gives the Service annotations that Helm reads. They have no effect in
// other namespaces, and the DemoApp can be deleted.
func TestHelmAnnotationsInValues(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"hook":    {"helm.sh/hook": "pre-delete,post-delete,pre-upgrade"},
		"policy":  {"helm.sh/resource-policy": "keep"},
		"release": {"meta.helm.sh/release-namespace": metav1.NamespaceSystem},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			ns.AddTenant("demoapps")
			app := apps.WithoutPods("web")
			values, err := json.Marshal(map[string]any{"serviceAnnotations": annotations})
			if err != nil {
				t.Fatal(err)
			}
			app.Spec.Values = &runtime.RawExtension{Raw: values}
			begin := time.Now()
			ns.Create(app)
			ns.AwaitReady("web")
			ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
			ns.AwaitReady("web")
			ns.Delete("web")
			ns.AwaitGone("web")

			if records := ns.Records("web"); len(records) > 0 {
				t.Errorf("there are release records: %v", records)
			}
			requests, err := shared.AuditRequests(begin, func(request cluster.AuditEvent) bool {
				return cluster.ByOperator()(request) && request.Namespace == metav1.NamespaceSystem
			})
			if err != nil || len(requests) > 0 {
				t.Errorf("the operator sent requests to another namespace (%v):\n%s", err, apps.Describe(requests))
			}
		})
	}
}
