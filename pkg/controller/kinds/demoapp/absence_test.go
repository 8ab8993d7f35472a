// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// hasRoute adds an object of spec.ingress to the deployed release of an app.
func (w *world) hasRoute(name, apiVersion, kind string) {
	w.t.Helper()
	entry := releasev1alpha1.InventoryEntry{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: "u", Digest: "d"}
	w.report(name, func(app *v1alpha1.DemoApp) { app.Status.Inventory = append(app.Status.Inventory, entry) })
	w.engine.Mutate(keyOf(name), func(r *releasetest.Release) {
		r.Live[kind] = helm.InventoryEntry{ObjectReference: helm.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name,
		}, UID: entry.UID, Digest: entry.Digest}
	})
}

// unserved makes the API server serve only v1beta1 of HTTPRoute.
func unserved(definition *unstructured.Unstructured) {
	versions := []any{map[string]any{"name": "v1", "served": false}, map[string]any{"name": "v1beta1", "served": true}}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		panic(err)
	}
}

// TestAbsentCapabilityKeepsRoutes: a deployed object of spec.ingress is deleted only after its
// capability was absent for absenceGrace.
func TestAbsentCapabilityKeepsRoutes(t *testing.T) {
	tests := map[string]struct {
		app                       func(*v1alpha1.DemoApp)
		apiVersion, kind, message string
		exposed                   string
		lose, regain              func(*world)
	}{
		"IngressClass": {
			exposedBy("nginx"), "networking.k8s.io/v1", "Ingress", noClassText + "; the Ingress is deleted after 2026-01-02T03:09:05Z", noClass,
			func(w *world) { w.hasClasses() }, func(w *world) { w.hasClasses("nginx") },
		},
		"version of HTTPRoute": {
			exposedBy("", "public"), "gateway.networking.k8s.io/v1", "HTTPRoute",
			noRouteText + "; the HTTPRoute is deleted after 2026-01-02T03:09:05Z", noGateway,
			func(w *world) { w.hasDefinition(httpRouteDefinition(unserved)) }, func(w *world) { w.hasDefinition(httpRouteDefinition()) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(newApp("a", test.app))
			test.regain(w)
			w.passes("a", controller.SpecChange)
			w.hasRoute("a", test.apiVersion, test.kind)
			w.calls.Take()

			for range 2 { // The second loss has a grace period of its own.
				test.lose(w)
				result := w.passes("a", controller.SpecChange)
				expect.Equal(t, "next pass", absenceGrace, result.RequeueAfter)
				expect.Equal(t, "requests", []string{"apply demoapps/status a"}, w.calls.Take())
				expect.Equal(t, "Exposed", test.exposed, w.is("a", v1alpha1.ConditionExposed))
				expect.Equal(t, "message", test.message, w.message("a", v1alpha1.ConditionExposed))
				expect.Equal(t, "Ready", "True Healthy", w.is("a", apimeta.ConditionReady))
				expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
				test.regain(w)
				w.passes("a", controller.SpecChange)
				expect.Equal(t, "Exposed", isExposed, w.is("a", v1alpha1.ConditionExposed))
				w.calls.Take()
			}

			test.lose(w)
			w.passes("a", controller.SpecChange)
			w.clock.Step(absenceGrace - time.Second)
			w.change("a", says("other"))
			w.passes("a", controller.SpecChange)
			ingress, httpRoute := w.renders()
			expect.Equal(t, "rendered with another message", []any{test.kind == "Ingress", test.kind == "HTTPRoute", "other"},
				[]any{ingress, httpRoute, w.engine.Desired.Values["message"]})
			w.hasRoute("a", test.apiVersion, test.kind)
			w.clock.Step(time.Second)
			w.passes("a", controller.Retry)
			ingress, httpRoute = w.renders()
			expect.Equal(t, "rendered after the grace period", []any{false, false}, []any{ingress, httpRoute})
			expect.Equal(t, "externalURL", "", w.app("a").Status.ExternalURL)
			expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged, w.app("a").Status.LastUpgradeReason)
		})
	}
}

// TestAbsentClassAfterRestart: the grace period begins again, and the deletion waits for its end.
func TestAbsentClassAfterRestart(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	w.hasRoute("a", "networking.k8s.io/v1", "Ingress")
	w.hasClasses()
	w.passes("a", controller.SpecChange)
	w.calls.Take()

	w.start(testChart(t, "1.0.0"))
	w.hasClasses()
	w.passes("a", controller.SpecChange)
	ingress, _ := w.renders()
	expect.Equal(t, "rendered", true, ingress)
	w.clock.Step(absenceGrace)
	w.passes("a", controller.Retry)
	ingress, _ = w.renders()
	expect.Equal(t, "rendered after the grace period", false, ingress)
}

// TestAbsentClassWithoutStatus: a restored DemoApp without a status may have an Ingress. Its upgrade
// waits, because the restore may create the IngressClass later.
func TestAbsentClassWithoutStatus(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	w.report("a", func(app *v1alpha1.DemoApp) {
		app.Status = v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
	})
	w.start(testChart(t, "1.0.0"))
	w.hasClasses()
	w.calls.Take()

	w.passes("a", controller.SpecChange)
	upgrades := func(call string) bool { return strings.HasPrefix(call, "Upgrade") }
	expect.Equal(t, "upgraded", false, slices.ContainsFunc(w.calls.Take(), upgrades))
	expect.Equal(t, "Ready", "False IngressClassMissing", w.is("a", apimeta.ConditionReady))
	expect.Equal(t, "message", noClassText+"; a change waits until 2026-01-02T03:09:05Z, because the absence may be short",
		w.message("a", apimeta.ConditionReady))
	w.clock.Step(absenceGrace)
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready after the grace period", "True Healthy", w.is("a", apimeta.ConditionReady))
}
