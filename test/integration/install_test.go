// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestInstallCreatesObjects(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	app := ns.AwaitReady("web")

	objects := ns.Objects("web")
	if len(objects.All()) != 4 {
		t.Fatalf("the objects are %v, want all four", objects.All())
	}
	owners := []metav1.OwnerReference{{
		APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web", UID: app.UID, Controller: ptr.To(true),
	}}
	for kind, object := range objects.All() {
		if got := object.GetLabels()["app.kubernetes.io/name"]; got != "web" {
			t.Errorf("%s: label app.kubernetes.io/name is %q", kind, got)
		}
		if diff := cmp.Diff(owners, object.GetOwnerReferences()); diff != "" {
			t.Errorf("%s: owner references (-want +got):\n%s", kind, diff)
		}
	}
	const page = "<html><body><h1>Hello from the hybrid operator</h1></body></html>"
	if got := objects.ConfigMap.Data["index.html"]; got != page {
		t.Errorf("index.html is %q, want %q", got, page)
	}
	if got := string(objects.Secret.Data["apiKey"]); got != "key-of-web" {
		t.Errorf("apiKey is %q", got)
	}
	if got := objects.Deployment.Spec.Template.Spec.Containers[0].Image; got != "nginx:1.27-alpine" {
		t.Errorf("image is %q", got)
	}
	if got := *objects.Deployment.Spec.Replicas; got != 1 {
		t.Errorf("%d replicas", got)
	}
	if got := objects.Service.Spec; got.Type != corev1.ServiceTypeClusterIP || got.Ports[0].Port != 80 {
		t.Errorf("Service is %s, port %d", got.Type, got.Ports[0].Port)
	}
	if !slices.Contains(app.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("finalizers %v", app.Finalizers)
	}
}

func TestInstallWritesHelmRelease(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	app := ns.AwaitReady("web")

	records := ns.Records("web")
	if len(records) != 1 || records[0].String() != "web v1 deployed" {
		t.Fatalf("release records %v, want one that is deployed", records)
	}
	if got := records[0].Secret; got.Name != "sh.helm.release.v1.web.v1" || got.Type != "helm.sh/release.v1" {
		t.Errorf("the record is Secret %s of type %s", got.Name, got.Type)
	}
	release := decodeRecord(t, records[0])
	if release.Name != "web" || release.Namespace != ns.Name || release.Version != 1 {
		t.Errorf("the record says %s/%s, version %d", release.Namespace, release.Name, release.Version)
	}
	if plain := sha256.Sum256([]byte(release.Manifest)); app.Status.AppliedManifestHash == hex.EncodeToString(plain[:]) {
		t.Error("appliedManifestHash is a hash over the Secret's values")
	}
	if revisions := app.Status.Revisions; len(revisions) != 1 || revisions[0].Revision != 1 || revisions[0].Digest == "" {
		t.Errorf("the status vouches for revisions %v", revisions)
	}
	if got, want := app.Status.DeployedRelease, (&releasev1alpha1.DeployedRelease{
		Name: "web", Revision: 1, Chart: "demo-app",
		ChartVersion: release.Chart.Metadata.Version, AppVersion: release.Chart.Metadata.AppVersion,
	}); !cmp.Equal(got, want) {
		t.Errorf("deployedRelease (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func TestInstallStatus(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	begin := time.Now().Truncate(time.Second)
	ns.Create(apps.Named("web"))
	app := ns.AwaitReady("web")

	got := map[string]string{}
	for _, condition := range app.Status.Conditions {
		got[condition.Type] = string(condition.Status) + "/" + condition.Reason
		if condition.ObservedGeneration != 1 {
			t.Errorf("condition %s was observed at generation %d", condition.Type, condition.ObservedGeneration)
		}
		if condition.Message == "" {
			t.Errorf("condition %s says nothing", condition.Type)
		}
	}
	want := map[string]string{"Initialized": "True/ChartLoaded", "Deployed": "True/InstallSucceeded", "Ready": "True/Healthy"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	status := app.Status
	if status.ObservedGeneration != 1 {
		t.Errorf("observedGeneration is %d", status.ObservedGeneration)
	}
	if status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
		t.Errorf("lastUpgradeReason is %s", status.LastUpgradeReason)
	}
	if at := status.LastUpgradeAt; at == nil || at.Time.Before(begin) || at.Time.After(time.Now()) {
		t.Errorf("lastUpgradeAt is %v, want it since %v", at, begin)
	}
	if status.Replicas != 1 || status.ReadyReplicas != 1 {
		t.Errorf("%d of %d replicas are ready", status.ReadyReplicas, status.Replicas)
	}
	if want := "http://web." + ns.Name + ".svc"; status.URL != want {
		t.Errorf("url is %q, want %q", status.URL, want)
	}
	pods, err := shared.Client.CoreV1().Pods(ns.Name).List(t.Context(), metav1.ListOptions{LabelSelector: status.Selector})
	if err != nil {
		t.Fatal(err)
	}
	if status.Selector == "" || len(pods.Items) != 1 {
		t.Errorf("selector %q selects %d pods", status.Selector, len(pods.Items))
	}
}

func TestRecreateWithSameName(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const times = 3
	for range times {
		created := ns.Create(apps.Named("web"))
		app := ns.AwaitReady("web")
		if app.UID != created.UID || apps.Revision(app) != 1 {
			t.Errorf("revision %d", apps.Revision(app))
		}
		if owner := metav1.GetControllerOf(ns.Objects("web").Deployment); owner == nil || owner.UID != app.UID {
			t.Errorf("the Deployment belongs to %+v", owner)
		}
		ns.Delete("web")
		ns.AwaitGone("web")
	}
	// Most likely, some of them ended within the same second.
	if records := ns.AuditRecords("web"); len(records) != times {
		t.Errorf("%d audit records, want %d", len(records), times)
	}
}
