// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
)

// deleteOrphan deletes a Memcached with the propagation policy Orphan.
func (w *world) deleteOrphan(name string) {
	w.t.Helper()
	w.Edit("Memcached", name, "kubectl", func(object *unstructured.Unstructured) {
		object.SetFinalizers(append(object.GetFinalizers(), metav1.FinalizerOrphanDependents))
	})
	w.Delete("Memcached", name)
}

// collect does the work of the garbage collector after deleteOrphan.
func (w *world) collect(name string) {
	w.t.Helper()
	w.Edit("ConfigMap", name, "kube-controller-manager", func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })
	w.Edit("Memcached", name, "kube-controller-manager", func(object *unstructured.Unstructured) {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(finalizer string) bool { return finalizer == metav1.FinalizerOrphanDependents }))
	})
}

// TestOrphanLetsReleaseGo: the release of a custom resource that is deleted with the propagation
// policy Orphan stays, also if the custom resource is paused, or if no operator runs meanwhile. The
// same custom resource continues the release later.
func TestOrphanLetsReleaseGo(t *testing.T) {
	const frozen = "example.com/frozen"
	tests := map[string]struct {
		annotations []string
		deletion    func(w *world, kind watches.ReleaseKind)
	}{
		"the operator runs": {deletion: func(w *world, _ watches.ReleaseKind) {
			w.deleteOrphan("default/a")
			w.Settle()
			w.collect("default/a")
		}},
		"no operator runs": {deletion: func(w *world, kind watches.ReleaseKind) {
			w.Stop()
			w.deleteOrphan("default/a")
			w.collect("default/a")
			w.start(kind)
		}},
		"no operator runs, and it waits for the objects otherwise": {
			annotations: []string{prefix + "uninstall-wait", "true"},
			deletion: func(w *world, kind watches.ReleaseKind) {
				w.Stop()
				w.deleteOrphan("default/a")
				w.collect("default/a")
				w.start(kind)
			},
		},
		"paused": {annotations: []string{frozen, "true"}, deletion: func(w *world, _ watches.ReleaseKind) {
			w.deleteOrphan("default/a")
			w.Settle()
			w.collect("default/a")
		}},
		"paused, and no operator runs": {annotations: []string{frozen, "true"}, deletion: func(w *world, kind watches.ReleaseKind) {
			w.Stop()
			w.deleteOrphan("default/a")
			w.collect("default/a")
			w.start(kind)
		}},
		"paused while it was being deleted": {annotations: []string{frozen, "true"}, deletion: func(w *world, _ watches.ReleaseKind) {
			w.Delete("Memcached", "default/a")
			w.Settle()
			w.deleteOrphan("default/a")
			w.Settle()
			w.collect("default/a")
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kind := caches(t)
			kind.PauseAnnotation = frozen
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", size3)
				w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, test.annotations...) })
				before := w.Object("ConfigMap", "default/a").GetUID()
				w.Recorder.Take()

				test.deletion(w, kind)
				w.Settle()

				w.has("events", w.Recorder.Take(), "a Normal Orphaned Delete Kept release a and its objects, because the propagation policy of the deletion is Orphan")
				expect.Equal(w.t, "objects", []string{"ConfigMap default/a"}, w.Names())
				expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())

				w.create("default/a", size3)
				w.Wait(time.Minute)
				w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
				kept := w.Object("ConfigMap", "default/a")
				expect.Equal(w.t, "the object was kept", before, kept.GetUID())
				expect.Equal(w.t, "owner", w.Object("Memcached", "default/a").GetUID(), metav1.GetControllerOf(kept).UID)
				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "objects after a usual deletion", []string{}, w.Names())
			})
		})
	}
}

// TestOneLostOwnerIsNoOrphan: a user who removes the owner of one object does not change the policy of
// a deletion.
func TestOneLostOwnerIsNoOrphan(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "second.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n")}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.Stop()
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })
		w.Delete("Memcached", "default/a")
		w.start(kind)
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}
