// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/expect"
)

var ingressClasses = networkingv1.SchemeGroupVersion.WithResource("ingressclasses")

// classNamed returns the metadata of an IngressClass.
func classNamed(name string) *metav1.PartialObjectMetadata {
	class := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "class", ResourceVersion: "1"}}
	class.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IngressClass"))
	return class
}

// httpRouteDefinition returns the CustomResourceDefinition of HTTPRoute, as an API server
// stores it.
func httpRouteDefinition(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": HTTPRouteCRD, "uid": "definition", "resourceVersion": "1"},
		"spec": map[string]any{"versions": []any{
			map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1beta1", "served": true},
		}},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
		}},
	}}
	for _, c := range change {
		c(definition)
	}
	return definition
}

// hasClasses replaces the IngressClasses of the cluster.
func (w *world) hasClasses(names ...string) {
	w.t.Helper()
	var classes []runtime.Object
	for _, name := range names {
		classes = append(classes, classNamed(name))
	}
	fill(w.t, w.classes.informer, classes)
}

// hasDefinition replaces the definition of HTTPRoute in the cluster; nil for none.
func (w *world) hasDefinition(definition *unstructured.Unstructured) {
	w.t.Helper()
	var definitions []any
	if definition != nil {
		definitions = append(definitions, served.DefinitionOf(definition))
	}
	expect.NoError(w.t, w.definition.informer.GetIndexer().Replace(definitions, ""))
}

func TestCapabilityIndex(t *testing.T) {
	tests := []struct {
		name   string
		object any
		want   []string
	}{
		{"none", newApp("a"), nil},
		{"class", newApp("a", exposedBy("nginx")), []string{"IngressClass/nginx"}},
		{"Gateway", newApp("a", exposedBy("", "public")), []string{"HTTPRoute"}},
		{"both", newApp("a", exposedBy("nginx", "public")), []string{"IngressClass/nginx", "HTTPRoute"}},
		{"not a DemoApp", &metav1.PartialObjectMetadata{}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := capabilityIndex(test.object)
			expect.NoError(t, err)
			expect.Equal(t, "needs", test.want, got)
		})
	}
}

func TestCapabilityChangesUpgrade(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		w.create(newApp("a", exposedBy("nginx")))
		w.create(newApp("b", exposedBy("", "public"), atHost("b.example.com")))
		w.create(newApp("c", exposedBy("traefik"), atHost("c.example.com")))
		w.create(newApp("d"))
		settle()
		why := func(name string) releasev1alpha1.UpgradeReason { return w.app(name).Status.LastUpgradeReason }
		revision := func(name string) int64 { return w.app(name).Status.DeployedRelease.Revision }
		observations := map[string]int{}
		for _, name := range []string{"a", "b", "c", "d"} {
			expect.Equal(t, "revision of "+name, int64(1), revision(name))
			observations[name] = w.engine.ObservationsOf(keyOf(name))
		}
		expect.NoError(t, w.metadata.Tracker().Create(ingressClasses, classNamed("nginx"), ""))
		expect.NoError(t, w.dynamic.Tracker().Create(served.Definitions, httpRouteDefinition(), ""))
		settle()
		for _, name := range []string{"a", "b"} {
			expect.Equal(t, "Exposed of "+name, "True RouteDeployed", w.is(name, v1alpha1.ConditionExposed))
			expect.Equal(t, "lastUpgradeReason of "+name, releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged, why(name))
		}
		expect.NoError(t, w.metadata.Tracker().Delete(ingressClasses, "", "nginx"))
		expect.NoError(t, w.dynamic.Tracker().Update(served.Definitions, httpRouteDefinition(func(definition *unstructured.Unstructured) {
			definition.SetResourceVersion("2")
			definition.SetDeletionTimestamp(&metav1.Time{Time: began})
		}), ""))
		settle()
		expect.Equal(t, "Exposed of a", "False IngressClassMissing", w.is("a", v1alpha1.ConditionExposed))
		expect.Equal(t, "Exposed of b", "False GatewayAPIMissing", w.is("b", v1alpha1.ConditionExposed))
		for _, name := range []string{"a", "b"} {
			expect.Equal(t, "revision of "+name, int64(3), revision(name))
			observations[name] = w.engine.ObservationsOf(keyOf(name))
		}
		expect.NoError(t, w.dynamic.Tracker().Delete(served.Definitions, "", HTTPRouteCRD))
		settle()
		for _, name := range []string{"c", "d"} {
			observations[name]++ // The first change of several apps recalls the state of the rollout.
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			expect.Equal(t, "observations of "+name, observations[name], w.engine.ObservationsOf(keyOf(name)))
		}
	})
}

func TestCapabilitiesAreWatchedOnDemand(t *testing.T) {
	w := deployed(t)
	expect.Equal(t, "Need calls of IngressClasses and of the definition", []int{0, 0}, []int{w.classes.needed, w.definition.needed})
	w.change("a", exposedBy("nginx"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Need calls of the definition", 0, w.definition.needed)
	if w.classes.needed == 0 {
		t.Error("IngressClasses are not watched")
	}
}
