// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

// forge changes the status of a Memcached as a tenant with the permission to write it does.
func (w *world) forge(name string, status map[string]any) {
	w.t.Helper()
	w.EditSubresource("Memcached", name, "tenant", "status", func(object *unstructured.Unstructured) { object.Object["status"] = status })
	w.Settle()
}

// TestForgedStatus: a status that names the release and the objects of another custom
// resource reaches neither, in a pass and in the deletion.
func TestForgedStatus(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/victim", size3)
		victim := w.Object("ConfigMap", "default/victim")
		stolen, _, err := unstructured.NestedMap(w.Object("Memcached", "default/victim").Object, "status")
		expect.NoError(w.t, err)

		// The forged status exists before the operator sees the custom resource.
		w.Stop()
		w.Edit("Memcached", "default/thief", "tenant", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(9)}
		})
		w.EditSubresource("Memcached", "default/thief", "tenant", "status", func(object *unstructured.Unstructured) { object.Object["status"] = stolen })
		w.start(caches(t))
		expect.Equal(w.t, "records", []string{"thief.v1 deployed", "victim.v1 deployed"}, w.HelmRecords())
		expect.Equal(w.t, "data of the thief", "9", w.field("ConfigMap", "default/thief", "data", "size"))

		w.forge("default/thief", stolen)
		w.Delete("Memcached", "default/thief")
		w.Settle()
		expect.Equal(w.t, "objects", []string{"ConfigMap default/victim", "Memcached default/victim"}, w.Names())
		expect.Equal(w.t, "records", []string{"victim.v1 deployed"}, w.HelmRecords())
		expect.Equal(w.t, "resourceVersion of the victim", victim.GetResourceVersion(), w.Object("ConfigMap", "default/victim").GetResourceVersion())
	})
}

// TestInvalidStatus: a status that cannot be read is written again. The release stays as it
// is.
func TestInvalidStatus(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.forge("default/a", map[string]any{"conditions": "none", "inventory": "all", "deployedRelease": int64(7), "history": map[string]any{}})
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/requested-at", "now") })
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// madeByHelm makes the release of a Memcached look like a release of the helm command: its record
// has no labels of the engine.
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

// leaveHelmRelease leaves a release a of the kind's chart as the helm command makes it: without an
// owner.
func (w *world) leaveHelmRelease() {
	w.t.Helper()
	w.create("default/a", size3)
	w.Stop()
	w.madeByHelm("a.v1")
	w.Edit("Memcached", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
	w.Remove("Memcached", "default/a")
	w.Edit("ConfigMap", "default/a", "helm", func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })
}

// TestReleaseOfAnotherClient: a release that another client made is taken over with the consent of
// the author of watches.yaml, or with the consent of its own author and of someone who may write
// its records.
func TestReleaseOfAnotherClient(t *testing.T) {
	const annotation, label = "demo.example.com/adopt-release", record.AdoptLabel
	tests := map[string]struct {
		otherChart, takeover, annotated, labeled, taken bool
	}{
		"no consent":                        {},
		"annotation":                        {annotated: true},
		"label":                             {labeled: true},
		"annotation and label":              {annotated: true, labeled: true, taken: true},
		"takeover":                          {takeover: true, taken: true},
		"takeover of another chart":         {otherChart: true, takeover: true},
		"annotation of another chart":       {otherChart: true, annotated: true},
		"annotation and label, other chart": {otherChart: true, annotated: true, labeled: true, taken: true},
		"takeover and annotation":           {otherChart: true, takeover: true, annotated: true, taken: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
				w.leaveHelmRelease()
				theirs := w.Object("ConfigMap", "default/a")
				kind := caches(t)
				kind.Takeover = test.takeover
				if test.otherChart {
					kind.Chart = namedChart(t, "another", "configmap.yaml", configMap)
				}
				w.start(kind)
				w.create("default/a", map[string]any{"size": int64(5)})
				if !test.takeover || test.otherChart {
					expect.Equal(w.t, "object without consent", theirs, w.Object("ConfigMap", "default/a"))
					w.has("conditions", w.conditions("default/a"), "Stalled True OwnershipConflict", "ReleaseFailed True UpgradeError")
					expect.Contains(w.t, "message", w.message("default/a", "Ready"), annotation+`: "true"`, label)
				}

				if test.labeled {
					w.Edit("Secret", "default/sh.helm.release.v1.a.v1", "kubectl", func(object *unstructured.Unstructured) {
						all := object.GetLabels()
						all[label] = "true"
						object.SetLabels(all)
					})
				}
				if test.annotated {
					w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, annotation, "true") })
				}
				w.Settle()

				if test.taken {
					expect.Equal(w.t, "data", "5", w.field("ConfigMap", "default/a", "data", "size"))
					expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
					w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
					w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(6)} })
					expect.Equal(w.t, "data after an upgrade", "6", w.field("ConfigMap", "default/a", "data", "size"))
					return
				}
				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "object", theirs, w.Object("ConfigMap", "default/a"))
				expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())
			})
		})
	}
}

// TestAdoptLabelAfterAnnotation: a release that waits for the label on its record is adopted when
// the label is set.
func TestAdoptLabelAfterAnnotation(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.leaveHelmRelease()
		w.start(caches(t))
		w.create("default/a", map[string]any{"size": int64(5)}, "demo.example.com/adopt-release", "true")
		w.has("conditions", w.conditions("default/a"), "Stalled True OwnershipConflict")

		w.Edit("Secret", "default/sh.helm.release.v1.a.v1", "kubectl", func(object *unstructured.Unstructured) {
			all := object.GetLabels()
			all[record.AdoptLabel] = "true"
			object.SetLabels(all)
		})
		w.Settle()

		expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
	})
}

// TestNamesOutsideTheAnnotations: annotations with names that are not in the list change
// nothing.
func TestNamesOutsideTheAnnotations(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.TakeRequests()
		w.change("default/a", func(object *unstructured.Unstructured) {
			annotate(object, "example.com/paused", "true", prefix+"unknown", "true")
		})
		expect.Equal(w.t, "requests", []string{}, w.TakeRequests())
	})
}
