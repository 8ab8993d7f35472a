// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm"
)

// TestForeignObjects uses names of a release's objects that exist already and belong to other clients.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	adopted := metav1.ObjectMeta{
		Name:        "web",
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{"meta.helm.sh/release-name": releaseName},
	}
	scenarios := []scenario{
		{
			name: "before an install",
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				makeConfigMap(t, namespace, metav1.ObjectMeta{Name: "web"})
			},
			steps: []step{
				deploy("install", "plain", nil).fails(classConflict).but(undone),
				deleteConfigMap("web"),
				deploy("install", "plain", nil),
				uninstall,
			},
		},
		{
			name: "before an install with hooks",
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				makeConfigMap(t, namespace, metav1.ObjectMeta{Name: "web"})
			},
			steps: []step{
				deploy("install", "hooks", nil).fails(classConflict).but(undone),
			},
		},
		{
			name: "before an upgrade",
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				makeConfigMap(t, namespace, metav1.ObjectMeta{Name: "second"})
			},
			steps: []step{
				deploy("install", "changing", nil),
				deploy("upgrade", "changing", values{"name": "second"}).fails(classConflict).but(undone),
				deploy("other values", "changing", values{"name": "third"}),
				uninstall,
			},
		},
		{
			name: "meant for the release",
			prepare: func(t *testing.T, namespace string) {
				t.Helper()
				meta := *adopted.DeepCopy()
				meta.Annotations = maps.Clone(meta.Annotations)
				meta.Annotations["meta.helm.sh/release-namespace"] = namespace
				makeConfigMap(t, namespace, meta)
			},
			steps: []step{
				deploy("install", "changing", values{"name": "web"}).but(claimed("ConfigMap NAMESPACE/web", "other")),
				deploy("upgrade", "changing", values{"name": "web", "version": "v2"}).but(claimed("ConfigMap NAMESPACE/web", "other")),
				uninstall,
			},
		},
		{
			name: "that lost its mark before it is removed",
			steps: []step{
				deploy("install", "changing", nil),
				patchConfigMap("first", unlabel),
				uninstall.but(known("ConfigMap NAMESPACE/first")),
			},
		},
		{
			name: "that lost its mark before it is changed",
			steps: []step{
				deploy("install", "changing", nil),
				patchConfigMap("first", unlabel),
				deploy("upgrade", "changing", values{"version": "v2"}),
				uninstall,
			},
		},
		{
			name: "that was deleted before it is removed",
			steps: []step{
				deploy("install", "changing", nil),
				deleteConfigMap("first"),
				deploy("upgrade", "changing", values{"name": "second"}),
				deleteConfigMap("second"),
				uninstall,
			},
		},
		{
			name: "that was deleted before it is changed",
			steps: []step{
				deploy("install", "changing", nil),
				deleteConfigMap("first"),
				deploy("upgrade", "changing", values{"version": "v2"}),
				uninstall,
			},
		},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

func makeConfigMap(t *testing.T, namespace string, meta metav1.ObjectMeta) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"made": "by another client"}}
	options := metav1.CreateOptions{FieldManager: otherManager}
	if _, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, options); err != nil {
		t.Fatal(err)
	}
}

// otherManager is the field manager of another client.
const otherManager = "other"

// unlabel removes the label that says that Helm manages an object.
const unlabel = `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`

// deleteConfigMap is the step in which another client deletes an object of the release.
func deleteConfigMap(name string) step {
	return step{name: "delete " + name, do: func(t *testing.T, p player) error {
		t.Helper()
		namespace, _ := p.home()
		err := shared.Client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
		awaitDrift(p, name, helm.DriftMissing)
		return err
	}}
}

// patchConfigMap is the step in which another client changes an object of the release.
func patchConfigMap(name, patch string) step {
	return step{name: "patch " + name, do: func(t *testing.T, p player) error {
		t.Helper()
		namespace, _ := p.home()
		_, err := shared.Client.CoreV1().ConfigMaps(namespace).
			Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
		awaitDrift(p, name, helm.DriftMissing)
		return err
	}}
}

// awaitDrift waits until an engine with the object in its baseline observes the drift.
func awaitDrift(p player, name string, kind helm.DriftKind) {
	e, ok := p.(*engine)
	if !ok || e.baseline.Revision == 0 {
		return
	}
	e.await(name+" "+string(kind), func(snapshot helm.Snapshot) bool {
		for _, drift := range snapshot.Drifts {
			if drift.Object.Name == name && drift.Kind == kind {
				return true
			}
		}
		return false
	})
}
