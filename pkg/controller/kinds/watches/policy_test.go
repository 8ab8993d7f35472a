// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// TestDriftPolicy plays the drift modes, ignored fields and added fields.
func TestDriftPolicy(t *testing.T) {
	tests := map[string]struct {
		policy     *releasev1alpha1.DriftPolicy
		data       string
		conditions []string
	}{
		"by default":          {nil, "map[extra:1 image:none size:3]", []string{"Ready True Healthy"}},
		"Correct":             {&releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftCorrect}, "map[extra:1 image:none size:3]", []string{"Ready True Healthy"}},
		"Warn":                {&releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftWarn}, "map[extra:1 image:none size:7]", []string{"Drifted True ObjectsChanged"}},
		"Off":                 {&releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, "map[extra:1 image:none size:7]", []string{"Ready True Healthy"}},
		"added field removed": {&releasev1alpha1.DriftPolicy{ForeignFields: releasev1alpha1.ForeignFieldsRemove}, "map[image:none size:3]", []string{"Ready True Healthy"}},
		"ignored field": {
			&releasev1alpha1.DriftPolicy{Ignore: []releasev1alpha1.DriftIgnore{{Kind: "ConfigMap", Paths: []string{"/data/size"}}}},
			"map[extra:1 image:none size:7]",
			[]string{"Ready True Healthy"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind := caches(t)
			kind.Policy.Drift = tc.policy
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", size3)
				w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
					object.Object["data"] = map[string]any{"size": "7", "image": "none", "extra": "1"}
				})
				w.Settle()
				expect.Equal(w.t, "data", tc.data, w.field("ConfigMap", "default/a", "data"))
				w.has("conditions", w.conditions("default/a"), tc.conditions...)
			})
		})
	}
}

// deployment is a template of a Deployment with an image.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: main, image: {{ .Values.image }}}]}
`

// deploys makes Deployments with the image good available, as the cluster's controller does.
func deploys(object *unstructured.Unstructured) bool {
	image, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if object.GetKind() != "Deployment" || image[0].(map[string]any)["image"] != "good" {
		return false
	}
	object.Object["status"] = map[string]any{
		"observedGeneration": object.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1),
		"readyReplicas": int64(1), "availableReplicas": int64(1),
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
	}
	return true
}

// TestWaitForReady rolls back a revision that is not healthy within the timeout of the kind.
func TestWaitForReady(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "deployment.yaml", deployment)}
	kind.Policy.WaitForReady, kind.Policy.Timeout = true, &metav1.Duration{Duration: 2 * time.Minute}
	kind.Policy.Remediation = &releasev1alpha1.Remediation{Retries: ptr.To[int32](0), Strategy: releasev1alpha1.RemediationRollback}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.With(func() { w.React = deploys })
		w.create("default/a", map[string]any{"image": "good"})
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")

		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"image": "bad"} })
		w.Wait(time.Minute)
		expect.Equal(w.t, "records before the timeout", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		w.Wait(2 * time.Minute)
		w.has("conditions after the timeout", w.conditions("default/a"), "Remediated True RolledBack", "ReleaseFailed True UpgradeError")
		expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "Revision 2 is not healthy after 2m0s")
		expect.Contains(w.t, "Deployment", w.field("Deployment", "default/a", "spec", "template", "spec", "containers"), "good")
	})
}

// TestUpgradeWindow holds a change until the upgrade window of the kind opens.
func TestUpgradeWindow(t *testing.T) {
	kind := caches(t)
	kind.Policy.UpgradeWindow = &releasev1alpha1.UpgradeWindow{Schedule: "0 4 * * *", Duration: metav1.Duration{Duration: time.Hour}}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) { // It is midnight.
		w.create("default/a", size3)
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		w.has("conditions before", w.conditions("default/a"), "UpgradeHeld True OutsideWindow", "Ready False OutsideWindow")
		expect.Equal(w.t, "records before", []string{"a.v1 deployed"}, w.HelmRecords())

		w.Wait(4 * time.Hour)
		w.has("conditions after", w.conditions("default/a"), "Ready True Healthy")
		expect.Equal(w.t, "records after", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
	})
}

// TestMaxHistory keeps as many revisions as the kind says.
func TestMaxHistory(t *testing.T) {
	kind := caches(t)
	kind.Policy.MaxHistory = ptr.To[int32](3)
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		for size := int64(1); size <= 5; size++ {
			w.create("default/a", map[string]any{"size": size})
		}
		expect.Equal(w.t, "records", []string{"a.v3 superseded", "a.v4 superseded", "a.v5 deployed"}, w.HelmRecords())
	})
}

// TestScope: objects outside the release's namespace are refused before any request for
// scope Namespace, and installed otherwise.
func TestScope(t *testing.T) {
	elsewhere := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: other}\n"
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules: []\n"
	tests := map[string]struct {
		scope            helm.Scope
		template, object string
		refused          bool
	}{
		"other namespace, by default":      {"", elsewhere, "ConfigMap other/x", false},
		"other namespace, scope Cluster":   {helm.ScopeCluster, elsewhere, "ConfigMap other/x", false},
		"other namespace, scope Namespace": {helm.ScopeNamespace, elsewhere, "ConfigMap other/x", true},
		"cluster-scoped, scope Namespace":  {helm.ScopeNamespace, role, "ClusterRole x", true},
		"cluster-scoped, by default":       {"", role, "ClusterRole x", false},
		"namespace of a value, scope Namespace": {
			helm.ScopeNamespace, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: {{ .Values.image }}}\n", "ConfigMap other/x", true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "x.yaml", tc.template), Scope: tc.scope}
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", map[string]any{"size": int64(3), "image": "other"})
				if tc.refused {
					expect.Equal(w.t, "objects", []string{"Memcached default/a"}, w.Names())
					expect.Equal(w.t, "records", []string{}, w.HelmRecords())
					w.has("conditions", w.conditions("default/a"), "Stalled True OutOfScope", "ReleaseFailed True InstallError")
					expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), tc.object+" is out of scope")
					return
				}
				w.has("objects", w.Names(), tc.object, "ConfigMap default/a")
				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "objects after the deletion", []string{}, w.Names())
			})
		})
	}
}

// TestPeriodOfKind: a kind has its own period, and the annotation replaces it. An invalid
// annotation is reported.
func TestPeriodOfKind(t *testing.T) {
	kind := caches(t)
	kind.IgnoreDependents, kind.ReconcilePeriod = true, time.Hour
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.create("default/b", size3, prefix+"reconcile-period", "30h")
		for _, name := range []string{"default/a", "default/b"} {
			w.Edit("ConfigMap", name, "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "7"} })
		}
		w.Wait(70 * time.Minute)
		expect.Equal(w.t, "data after the period of the kind", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "data within the period of the annotation", "7", w.field("ConfigMap", "default/b", "data", "size"))
		w.Wait(33 * time.Hour)
		expect.Equal(w.t, "data after the period of the annotation", "3", w.field("ConfigMap", "default/b", "data", "size"))
		w.Recorder.Take()
		w.change("default/b", func(object *unstructured.Unstructured) { annotate(object, prefix+"reconcile-period", "often") })
		w.has("events", w.Recorder.Take(), "b Warning InvalidReconcilePeriod Reconcile Annotation "+prefix+
			`reconcile-period is ignored: "often" is not a duration of at least 1s, for example 5m`)
	})
}

// TestWorkers: a kind reconciles as many custom resources at a time as it says.
func TestWorkers(t *testing.T) {
	for _, workers := range []int{1, 3} {
		kind, mu, running, most := caches(t), sync.Mutex{}, 0, 0
		kind.MaxConcurrentReconciles = workers
		kind.Translator = func(context.Context, *unstructured.Unstructured) (map[string]any, error) {
			count := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				running += by
				most = max(most, running)
			}
			count(1)
			defer count(-1)
			<-time.After(time.Second)
			return map[string]any{"size": 3}, nil
		}
		bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
			for i := range 6 {
				w.Edit("Memcached", fmt.Sprintf("default/m%d", i), "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })
			}
			w.Wait(time.Minute)
			expect.Equal(w.t, "number of records", 6, len(w.HelmRecords()))
			expect.Equal(w.t, "custom resources at a time", workers, most)
		})
	}
}
