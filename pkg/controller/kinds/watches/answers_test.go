// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

func resized(size int64) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": size} }
}

// TestAdjustedManifest: the condition Adjusted and an event name file, object and field of the
// parts that a revision left out, until a revision leaves out nothing.
func TestAdjustedManifest(t *testing.T) {
	kind := caches(t)
	kind.Chart = chartOf(t, "1.0.0", "configmap.yaml", strings.Replace(configMap, "metadata:\n",
		"metadata:\n{{- if eq (int .Values.size) 3 }}\n  uid: 1c9b3ae5-0000-4000-8000-000000000000\n  resourceVersion: \"7\"\n{{- end }}\n", 1))
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.has("conditions", w.conditions("default/a"), "Adjusted True ManifestAdjusted", "Ready True Healthy")
		const want = "memcached/templates/configmap.yaml: ConfigMap default/a: metadata.resourceVersion: only the API server sets this field, so it is left out"
		expect.Contains(w.t, "message", w.message("default/a", "Adjusted"), want)
		expect.Contains(w.t, "events", strings.Join(w.Recorder.Take(), "\n"), "Warning ManifestAdjusted Reconcile "+want)

		w.Remove("ConfigMap", "default/a")
		w.Settle()
		w.has("conditions after a repair", w.conditions("default/a"), "Adjusted True ManifestAdjusted", "Ready True Healthy")

		w.change("default/a", resized(4))
		expect.Equal(w.t, "message after another revision", "", w.message("default/a", "Adjusted"))
	})
}

// TestFaultOfObject: an error without a reason counts for its object. The retries end, the release
// is rolled back, and the deployed objects are restored meanwhile.
func TestFaultOfObject(t *testing.T) {
	kind := caches(t)
	kind.Chart = chartOf(t, "1.0.0", "configmap.yaml", configMap, "other.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.With(func() {
			w.Validate = func(object *unstructured.Unstructured) error {
				if got, _, _ := unstructured.NestedString(object.Object, "data", "size"); got == "4" {
					return errors.New("something else") // The answer is 500 without a reason.
				}
				return nil
			}
		})
		w.change("default/a", resized(4))
		w.Remove("ConfigMap", "default/other")
		w.Settle()
		w.has("objects while the upgrade is retried", w.Names(), "ConfigMap default/other")
		w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError")
		expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "ConfigMap default/a: something else")

		w.Wait(time.Minute)
		w.has("conditions in the end", w.conditions("default/a"), "Ready False RolledBack", "Stalled True RolledBack")
		expect.Equal(w.t, "size", "3", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestFaultOfServer: an absent webhook never counts, however often it is called.
func TestFaultOfServer(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.With(func() {
			w.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
				if request.Verb == "apply" && object != nil && object.GetKind() == "ConfigMap" {
					return apierrors.NewInternalError(errors.New("failed calling webhook"))
				}
				return nil
			}
		})
		w.change("default/a", resized(4))
		w.Wait(time.Hour)
		w.has("conditions", w.conditions("default/a"), "Reconciling True UpgradeFailed")
		w.With(func() { w.Refuse = nil })
		w.Wait(10 * time.Minute)
		w.has("conditions in the end", w.conditions("default/a"), "Ready True Healthy")
		expect.Equal(w.t, "size", "4", w.field("ConfigMap", "default/a", "data", "size"))
	})
}
