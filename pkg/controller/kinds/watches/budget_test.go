// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
)

// budgetObjects are the kinds of the objects of budgetChart.
var budgetObjects = []string{"Secret", "ConfigMap", "Service", "Deployment"}

// budgetTemplates are templates of four objects, each with a value of its own.
var budgetTemplates = []string{
	"secret.yaml", `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
data:
  size: {{ .Values.secret | toString | b64enc }}
`,
	"configmap.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  size: "{{ .Values.config }}"
`,
	"service.yaml", `apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports:
  - port: {{ .Values.port }}
`,
	"deployment.yaml", `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
    spec:
      containers:
      - {name: main, image: example.com/main:1}
`,
}

// budgetValues returns values whose first objects depend on the text.
func budgetValues(changed int64, objects int) map[string]any {
	values := map[string]any{"secret": int64(1), "config": int64(1), "port": int64(1), "replicas": int64(1)}
	for _, name := range []string{"secret", "config", "port", "replicas"}[:objects] {
		values[name] = changed
	}
	return values
}

// budgetKind is a kind with a chart of four objects.
func budgetKind(t *testing.T, name string) watches.ReleaseKind {
	t.Helper()
	kind := caches(t)
	kind.GroupVersionKind.Kind = name
	kind.Chart = chartOf(t, "1.0.0", budgetTemplates...)
	return kind
}

// serveKind serves a kind and returns its budgetKind.
func (w *world) serveKind(name string) watches.ReleaseKind {
	w.t.Helper()
	w.Serve(memcacheds.GroupVersion().WithResource(strings.ToLower(name)+"s"), name, true)
	return budgetKind(w.t, name)
}

// rolloutsEnd completes each rollout at once, as a cluster does.
func rolloutsEnd(object *unstructured.Unstructured) bool {
	if object.GetKind() != "Deployment" {
		return false
	}
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	object.Object["status"] = map[string]any{
		"observedGeneration": object.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
		"availableReplicas": replicas,
		"conditions": []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		},
	}
	return true
}

// resource changes the spec of a custom resource of any kind, without waiting.
func (w *world) resource(kind, name string, spec map[string]any) {
	w.t.Helper()
	w.Edit(kind, name, "kubectl", func(object *unstructured.Unstructured) { object.Object["spec"] = spec })
}

// drift changes an object of a release as a user does, without waiting.
func (w *world) drift(kind, name string) {
	w.t.Helper()
	w.Edit(kind, name, "kubectl", func(object *unstructured.Unstructured) {
		switch kind {
		case "Secret":
			object.Object["data"] = map[string]any{"size": "ZHJpZnRlZA=="}
		case "ConfigMap":
			object.Object["data"] = map[string]any{"size": "drifted"}
		case "Service":
			expect.NoError(w.t, unstructured.SetNestedField(object.Object, "drifted", "spec", "selector", "app"))
		case "Deployment":
			expect.NoError(w.t, unstructured.SetNestedField(object.Object, int64(9), "spec", "replicas"))
		}
	})
}

// spend counts requests and events from the call of do until nothing moves any more.
func (w *world) spend(what string, most int, do func()) {
	w.t.Helper()
	w.TakeRequests()
	w.Recorder.Take()
	do()
	w.Settle()
	requests := append(w.TakeRequests(), w.Recorder.Take()...)
	w.t.Logf("%s: %d requests, at most %d", what, len(requests), most)
	if len(requests) > most {
		w.t.Errorf("%s took %d requests, at most %d are allowed:\n%s", what, len(requests), most, strings.Join(requests, "\n"))
	}
}

// TestBudget counts the requests of a custom resource of the kind Memcached, with events and
// without watches. Another kind has a release of its own. Each count is an upper limit.
func TestBudget(t *testing.T) {
	c := len(budgetObjects)
	bubble(t, nil, func(w *world) {
		w.With(func() { w.React = rolloutsEnd })
		expect.NoError(w.t, w.manager.Update(w.serveKind("Memcached"), w.serveKind("Backup")))
		w.Settle()
		w.resource("Backup", "default/b", budgetValues(1, 0))
		w.Settle()

		w.spend("an install", c+5, func() { w.resource("Memcached", "default/a", budgetValues(1, 0)) })
		w.has("conditions", w.conditions("default/a"), "Ready True Healthy")
		for changed := 1; changed <= c; changed++ {
			w.spend(fmt.Sprintf("an upgrade of %d objects", changed), changed+5, func() {
				w.resource("Memcached", "default/a", budgetValues(int64(changed+1), changed))
			})
			w.has("conditions", w.conditions("default/a"), "Deployed True UpgradeSuccessful", "Ready True Healthy")
		}
		w.spend("a change of the metadata of the custom resource", 0, func() {
			w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "example.com/note", "1") })
		})
		for _, kind := range budgetObjects {
			w.spend("drift of the "+kind, 1+2+1, func() { w.drift(kind, "default/a") })
		}
		expect.Equal(w.t, "data after the repair", "5", w.field("ConfigMap", "default/a", "data", "size"))
		w.spend("rest", 0, func() { w.Wait(10 * time.Hour) })
		w.spend("an uninstall", c+8, func() { w.Delete("Memcached", "default/a") })
		expect.Equal(w.t, "records", []string{"b.v1 deployed"}, w.HelmRecords())
	})
}

// TestBudgetOfManyKinds: releases of many kinds cost nothing at rest, through periodic
// reconciles and after a restart.
func TestBudgetOfManyKinds(t *testing.T) {
	const kinds, each = 6, 5
	bubble(t, nil, func(w *world) {
		w.With(func() { w.React = rolloutsEnd })
		var all []watches.ReleaseKind
		for i := range kinds {
			kind := w.serveKind(fmt.Sprintf("Kind%02d", i))
			kind.ReconcilePeriod, kind.IgnoreDependents = time.Hour, i%2 == 1
			all = append(all, kind)
		}
		expect.NoError(w.t, w.manager.Update(all...))
		w.Settle()

		w.spend("the installs", kinds*each*(len(budgetObjects)+5), func() {
			for i, kind := range all {
				for n := range each {
					w.resource(kind.GroupVersionKind.Kind, fmt.Sprintf("default/r%02d-%d", i, n), budgetValues(1, 0))
				}
			}
		})
		expect.Equal(w.t, "records", kinds*each, len(w.HelmRecords()))
		w.spend("rest with periodic reconciles", 0, func() { w.Wait(2 * time.Hour) })
		// The health of a changed Deployment starts a reconcile of any kind.
		for drifted := 1; drifted < len(budgetObjects); drifted++ {
			w.spend(fmt.Sprintf("drift of %d objects of a kind that ignores dependents", drifted), 0, func() {
				for _, kind := range budgetObjects[:drifted] {
					w.drift(kind, "default/r01-0")
				}
			})
			w.spend("the periodic reconcile that corrects the drift", drifted+2+1, func() { w.Wait(70 * time.Minute) })
		}
		expect.Equal(w.t, "data after the repair", "1", w.field("ConfigMap", "default/r01-0", "data", "size"))

		w.Stop()
		w.TakeRequests()
		w.start(all...)
		w.Settle()
		requests := slices.DeleteFunc(w.TakeRequests(), func(request string) bool { return strings.HasPrefix(request, "list ") })
		expect.Equal(w.t, "requests after the restart, besides lists", []string{}, requests)
		expect.Equal(w.t, "events after the restart", 0, len(w.Recorder.Take()))
	})
}
