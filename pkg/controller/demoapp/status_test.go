// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

func TestServiceURL(t *testing.T) {
	tests := []struct {
		name string
		port int32
		want string
	}{
		{"not set", 0, "http://a.ns.svc"},
		{"default", 80, "http://a.ns.svc"},
		{"another", 8080, "http://a.ns.svc:8080"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := newApp("a", func(app *v1alpha1.DemoApp) { app.Spec.Service.Port = test.port })
			equal(t, "url", test.want, serviceURL(app))
		})
	}
}

func fullStatus() v1alpha1.DemoAppStatus {
	at := metav1.NewTime(began)
	app := newApp("a", isUp)
	app.Status.ObservedGeneration = 3
	app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: 7, Chart: "demo-app", ChartVersion: "1.0.0", AppVersion: "1.27"}
	app.Status.LastUpgradeReason, app.Status.LastUpgradeAt = releasev1alpha1.UpgradeReasonChartChanged, &at
	app.Status.AppliedManifestHash = "abc"
	app.Status.Revisions = []releasev1alpha1.RevisionDigest{{Revision: 7, Digest: "d7"}}
	app.Status.Inventory = []releasev1alpha1.InventoryEntry{
		{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "a", UID: "uid-1", Digest: "d1"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "a", UID: "uid-2", Digest: "d2"},
	}
	app.Status.Replicas, app.Status.ReadyReplicas, app.Status.Selector = 3, 2, "app=a"
	app.Status.URL, app.Status.ExternalURL, app.Status.NodePort = "http://a.ns.svc", "https://web.example.com", 30080
	return app.Status
}

func TestStatusIsAppliedAsAWhole(t *testing.T) {
	noAppVersion := fullStatus()
	noAppVersion.DeployedRelease.AppVersion = ""
	tests := []struct {
		name string
		want v1alpha1.DemoAppStatus
	}{
		{"everything", fullStatus()},
		{"a chart without appVersion", noAppVersion},
		{"a first visit that waits", newApp("a", isDown).Status},
		{"nothing", v1alpha1.DemoAppStatus{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			app := w.create(newApp("a"))
			// What an earlier apply wrote goes when a later one does not have it.
			for _, status := range []v1alpha1.DemoAppStatus{fullStatus(), test.want} {
				app.Status = status
				written, err := applyStatus(t.Context(), w.demo.DemoV1alpha1().DemoApps(namespace), app)
				must(t, err)
				equal(t, "written", status, written.Status)
				equal(t, "spec", app.Spec, written.Spec)
			}
		})
	}
}

func TestBaselineOf(t *testing.T) {
	entry := func(version, kind, namespace string, uid types.UID, digest string) helm.InventoryEntry {
		return helm.InventoryEntry{
			ObjectReference: helm.ObjectReference{APIVersion: version, Kind: kind, Namespace: namespace, Name: "a"},
			UID:             uid, Digest: digest,
		}
	}
	tests := []struct {
		name   string
		status v1alpha1.DemoAppStatus
		want   helm.Baseline
	}{
		{"never deployed", v1alpha1.DemoAppStatus{}, helm.Baseline{}},
		{"deployed", fullStatus(), helm.Baseline{Revision: 7, Inventory: []helm.InventoryEntry{
			entry("v1", "Secret", namespace, "uid-1", "d1"),
			entry("rbac.authorization.k8s.io/v1", "ClusterRole", "", "uid-2", "d2"),
		}, Revisions: []helm.RevisionDigest{{Revision: 7, Digest: "d7"}}}},
		{"deployed before there were digests", v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{
			DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 7}, AppliedManifestHash: "abc",
		}}, helm.Baseline{
			Revision: 7, Inventory: []helm.InventoryEntry{}, Revisions: []helm.RevisionDigest{{Revision: 7, Digest: helm.ManifestDigest("abc")}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "baseline", test.want, baselineOf(&v1alpha1.DemoApp{Status: test.status}))
		})
	}
}
