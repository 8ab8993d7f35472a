// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
)

// strictCaches is a kind whose chart does not render with the size "bad". The first failure
// is given up.
func strictCaches(t *testing.T) watches.ReleaseKind {
	t.Helper()
	return watches.ReleaseKind{
		GroupVersionKind: memcached,
		Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap,
			"check.yaml", `{{ if eq (toString .Values.size) "bad" }}{{ fail "the size is bad" }}{{ end }}`),
		Policy: releasev1alpha1.ReleasePolicy{
			Remediation: &releasev1alpha1.Remediation{Retries: ptr.To[int32](0), Strategy: releasev1alpha1.RemediationNone},
		},
	}
}

// TestCorrectedOverrides: corrected overrides restart the attempts after they were given up, even
// after a restart of the operator.
func TestCorrectedOverrides(t *testing.T) {
	bad := strictCaches(t)
	bad.Overrides = map[string]string{"size": "bad"}
	bubble(t, []watches.ReleaseKind{bad}, func(w *world) {
		w.create("default/a", size3)
		w.wait(time.Hour)
		w.has("conditions", w.conditions("default/a"), "Ready False RetriesExhausted")
		w.contains("message", w.message("default/a", "Ready"), "Gave up after 1 failed attempt", "the size is bad")

		w.stop()
		corrected := strictCaches(t)
		corrected.Overrides = map[string]string{"size": "4"}
		w.start(corrected)
		w.has("conditions after the correction", w.conditions("default/a"), "Ready True Healthy")
		w.equal("size", "4", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestCorrectedTranslation: changed values of the translator restart the attempts after they were
// given up. Equal values do not, even after a restart of the operator, if a revision was recorded.
func TestCorrectedTranslation(t *testing.T) {
	size := atomic.Value{}
	size.Store("3")
	kind := func() watches.ReleaseKind {
		kind := strictCaches(t)
		kind.Translator = func(context.Context, *unstructured.Unstructured) (map[string]any, error) {
			return map[string]any{"size": size.Load()}, nil
		}
		return kind
	}
	bubble(t, []watches.ReleaseKind{kind()}, func(w *world) {
		pass := func(request string) {
			w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/requested-at", request) })
		}
		w.With(func() {
			w.Validate = func(object *unstructured.Unstructured) error {
				if value, _, _ := unstructured.NestedString(object.Object, "data", "size"); object.GetKind() == "ConfigMap" && value == "refused" {
					return forbidden("configmaps", "the size is refused")
				}
				return nil
			}
		})
		w.create("default/a", size3)
		for i, bad := range []string{"bad", "refused"} {
			size.Store(bad)
			pass(bad)
			w.wait(10 * time.Minute)
			w.has("conditions with size "+bad, w.conditions("default/a"), "Ready False RetriesExhausted")
			if i == 1 {
				break
			}
			size.Store("4")
			pass("better")
			w.has("conditions after the correction", w.conditions("default/a"), "Ready True Healthy")
			w.equal("size", "4", w.field("ConfigMap", "default/a", "data", "size"))
		}

		w.stop()
		w.TakeRequests()
		w.start(kind())
		w.has("conditions after a restart", w.conditions("default/a"), "Ready False RetriesExhausted")
		if requests := w.TakeRequests(); slices.Contains(requests, "apply configmaps default/a") {
			t.Errorf("what was given up is tried again after a restart: %q", requests)
		}

		w.stop()
		size.Store("4")
		w.start(kind())
		w.has("conditions after a correction while away", w.conditions("default/a"), "Ready True Healthy")
	})
}
