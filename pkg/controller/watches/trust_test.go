// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/watches"
)

// forge changes the status of a Memcached as a tenant with the permission to write it does.
func (w *world) forge(name string, status map[string]any) {
	w.t.Helper()
	w.EditSubresource("Memcached", name, "tenant", "status", func(object *unstructured.Unstructured) { object.Object["status"] = status })
	w.settle()
}

// TestForgedStatus: a status that names the release and the objects of another custom
// resource reaches neither, in a pass and in the deletion.
func TestForgedStatus(t *testing.T) {
	bubble(t, []watches.Kind{caches(t)}, func(w *world) {
		w.create("default/victim", size3)
		victim := w.Object("ConfigMap", "default/victim")
		stolen, _, err := unstructured.NestedMap(w.Object("Memcached", "default/victim").Object, "status")
		w.must(err)

		// The forged status exists before the operator sees the custom resource.
		w.stop()
		w.Edit("Memcached", "default/thief", "tenant", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(9)}
		})
		w.EditSubresource("Memcached", "default/thief", "tenant", "status", func(object *unstructured.Unstructured) { object.Object["status"] = stolen })
		w.start(caches(t))
		w.equal("records", []string{"thief.v1 deployed", "victim.v1 deployed"}, w.HelmRecords())
		w.equal("data of the thief", "9", w.field("ConfigMap", "default/thief", "data", "size"))

		w.forge("default/thief", stolen)
		w.Delete("Memcached", "default/thief")
		w.settle()
		w.equal("objects", []string{"ConfigMap default/victim", "Memcached default/victim"}, w.Names())
		w.equal("records", []string{"victim.v1 deployed"}, w.HelmRecords())
		w.equal("resourceVersion of the victim", victim.GetResourceVersion(), w.Object("ConfigMap", "default/victim").GetResourceVersion())
	})
}

// TestInvalidStatus: a status that cannot be read is written again. The release stays as it
// is.
func TestInvalidStatus(t *testing.T) {
	bubble(t, []watches.Kind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.forge("default/a", map[string]any{"conditions": "none", "inventory": "all", "deployedRelease": int64(7), "history": map[string]any{}})
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/requested-at", "now") })
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
		w.equal("data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.equal("records", []string{"a.v1 deployed"}, w.HelmRecords())
		w.Delete("Memcached", "default/a")
		w.settle()
		w.equal("objects", []string{}, w.Names())
	})
}

// madeByHelm makes the release of a Memcached look like one that the helm command made: its
// record has no labels of the engine.
func (w *world) madeByHelm(record string) {
	w.t.Helper()
	w.Edit("Secret", "default/sh.helm.release.v1."+record, "helm", func(object *unstructured.Unstructured) {
		all := object.GetLabels()
		for key := range all {
			if strings.HasPrefix(key, "engine.") {
				delete(all, key)
			}
		}
		object.SetLabels(all)
		object.SetOwnerReferences(nil)
	})
}

// TestAdoptRelease: a release of another chart that another client made is adopted only with
// the annotation. A release of the chart is taken over without.
func TestAdoptRelease(t *testing.T) {
	bubble(t, []watches.Kind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.stop()
		w.madeByHelm("a.v1")
		w.Edit("Memcached", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		w.Remove("Memcached", "default/a")
		w.Edit("ConfigMap", "default/a", "helm", func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })

		other := caches(t)
		other.Chart = namedChart(t, "another", "configmap.yaml", configMap)
		w.start(other)
		w.create("default/a", map[string]any{"size": int64(5)})
		w.equal("data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.has("conditions", w.conditions("default/a"), "Stalled True OwnershipConflict", "ReleaseFailed True UpgradeError")
		w.contains("message", w.message("default/a", "Ready"), `demo.example.com/adopt-release: "true"`)

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/adopt-release", "true") })
		w.equal("data", "5", w.field("ConfigMap", "default/a", "data", "size"))
		w.equal("records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
	})
}

// TestNamesOutsideTheAnnotations: annotations with names that are not in the list change
// nothing.
func TestNamesOutsideTheAnnotations(t *testing.T) {
	bubble(t, []watches.Kind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.TakeRequests()
		w.change("default/a", func(object *unstructured.Unstructured) {
			annotate(object, "example.com/paused", "true", prefix+"unknown", "true")
		})
		w.equal("requests", []string{}, w.TakeRequests())
	})
}
