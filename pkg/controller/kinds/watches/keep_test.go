// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
)

// service is a template of a Service, which is applied after a ConfigMap.
const service = `apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  ports:
  - port: {{ .Values.port | default 80 }}
`

// servedCaches is a kind whose release is a ConfigMap and a Service. A failed upgrade is not
// rolled back.
func servedCaches(t *testing.T) watches.ReleaseKind {
	t.Helper()
	return watches.ReleaseKind{
		GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "service.yaml", service),
		Policy: releasev1alpha1.ReleasePolicy{Remediation: &releasev1alpha1.Remediation{Strategy: releasev1alpha1.RemediationNone}},
	}
}

// immutable makes the API server refuse changes of ConfigMaps.
func (w *world) immutable(refuse func() error) {
	created := ""
	w.With(func() {
		w.Validate = func(object *unstructured.Unstructured) error {
			if object.GetKind() != "ConfigMap" {
				return nil
			}
			size, _, _ := unstructured.NestedString(object.Object, "data", "size")
			if object.GetUID() == "" {
				created = size // It is about to be created.
			}
			if size != created {
				return refuse()
			}
			return nil
		}
	})
}

// TestDriftWhileUpgradeFails: the drift of the deployed revision is corrected while the API
// server refuses an upgrade, after a restart, and after the upgrade was given up.
func TestDriftWhileUpgradeFails(t *testing.T) {
	tests := map[string]func() error{
		"an immutable field": func() error {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil)
		},
		"a policy": func() error {
			return forbidden("configmaps", "admission webhook \"policy\" denied the request")
		},
	}
	for name, refuse := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{servedCaches(t)}, func(w *world) {
				w.immutable(refuse)
				w.create("default/a", size3)
				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(4)} })
				w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError")
				w.Recorder.Take()

				w.Remove("Service", "default/a")
				w.settle()
				w.equal("port of the Service that was deleted", "80", w.port("default/a"))
				w.has("events", w.Recorder.Take(), "Normal DriftCorrected Corrected Service a (missing)")
				w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError")

				w.stop()
				w.Remove("Service", "default/a")
				w.start(servedCaches(t))
				w.equal("port after a restart", "80", w.port("default/a"))
				w.Remove("Service", "default/a")
				w.settle()
				w.equal("port after another deletion", "80", w.port("default/a"))

				w.wait(time.Hour)
				w.has("conditions later", w.conditions("default/a"), "Ready False RetriesExhausted")
				w.Remove("Service", "default/a")
				w.Remove("ConfigMap", "default/a")
				w.settle()
				w.equal("port after the upgrade was given up", "80", w.port("default/a"))
				w.equal("size of the ConfigMap", "3", w.field("ConfigMap", "default/a", "data", "size"))
				w.has("conditions in the end", w.conditions("default/a"), "Ready False RetriesExhausted")
			})
		})
	}
}

func (w *world) port(name string) string {
	w.t.Helper()
	service := w.Object("Service", name)
	if service == nil {
		return "no Service"
	}
	ports, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
	w.must(err)
	port, _, err := unstructured.NestedFieldNoCopy(ports[0].(map[string]any), "port")
	w.must(err)
	return fmt.Sprint(port)
}
