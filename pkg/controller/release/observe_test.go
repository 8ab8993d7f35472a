// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestBaseline(t *testing.T) {
	entry := func(version, kind, namespace string, uid types.UID, digest string) helm.InventoryEntry {
		return helm.InventoryEntry{
			ObjectReference: helm.ObjectReference{APIVersion: version, Kind: kind, Namespace: namespace, Name: "a"},
			UID:             uid, Digest: digest,
		}
	}
	tests := []struct {
		name   string
		status releasev1alpha1.ReleaseStatus
		want   helm.Baseline
	}{
		{"never deployed", releasev1alpha1.ReleaseStatus{}, helm.Baseline{}},
		{"deployed", fullStatus(), helm.Baseline{Revision: 7, Inventory: []helm.InventoryEntry{
			entry("v1", "Secret", "ns", "uid-1", "d1"),
			entry("rbac.authorization.k8s.io/v1", "ClusterRole", "", "uid-2", "d2"),
		}, Revisions: []record.Digest{{Revision: 7, Digest: "d7"}}}},
		{"deployed before there were digests", releasev1alpha1.ReleaseStatus{
			DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 7}, AppliedManifestHash: "abc",
		}, helm.Baseline{
			Revision: 7, Inventory: []helm.InventoryEntry{}, Revisions: []record.Digest{{Revision: 7, Digest: record.ManifestDigest("abc")}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "baseline", test.want, Baseline(test.status, releasev1alpha1.ReleasePolicy{}, ""))
		})
	}
}

// fullStatus is a status with all fields of a baseline.
func fullStatus() releasev1alpha1.ReleaseStatus {
	at := metav1.NewTime(began)
	app := newSample()
	app.Status.ObservedGeneration = 3
	app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a", Revision: 7, Chart: "demo-app", ChartVersion: "1.0.0", AppVersion: "1.27"}
	app.Status.LastUpgradeReason, app.Status.LastUpgradeAt = releasev1alpha1.UpgradeReasonChartChanged, &at
	app.Status.AppliedManifestHash = "abc"
	app.Status.Revisions = []releasev1alpha1.RevisionDigest{{Revision: 7, Digest: "d7"}}
	app.Status.Inventory = []releasev1alpha1.InventoryEntry{
		{APIVersion: "v1", Kind: "Secret", Namespace: "ns", Name: "a", UID: "uid-1", Digest: "d1"},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "a", UID: "uid-2", Digest: "d2"},
	}
	app.Status.Replicas, app.Status.ReadyReplicas, app.Status.Selector = 3, 2, "app=a"
	return app.Status
}
