// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/memcachedbackup"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/website"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
	"github.com/example/demoapp-controller/pkg/images"
	"github.com/example/demoapp-controller/pkg/inspect"
)

// kinds returns the functions of the kinds whose desired state depends on their spec and on the
// images that the operator reports. Other kinds also need the flags of the operator, or its
// findings about the cluster.
func kinds() map[schema.GroupKind]inspect.KindFunctions {
	return map[schema.GroupKind]inspect.KindFunctions{
		demov1alpha1.SchemeGroupVersion.WithKind("DemoApp").GroupKind(): {
			Fields: demoAppFields, Restore: restoreDemoApp,
			Chart: func() (*chart.Chart, error) { return chart.LoadFS(charts.DemoApp(), ".") },
		},
		memcachedbackup.Kind.GroupKind(): children(memcachedbackup.Kind, func(m *cachev1.MemcachedBackup, in inspect.ChildrenInput) []child.Desired {
			return []child.Desired{memcachedbackup.Desired(m, in.Images)}
		}),
		webapp.Kind.GroupKind(): children(webapp.Kind, func(w *examplev1.WebApp, in inspect.ChildrenInput) []child.Desired {
			return webapp.Desired(w, in.EnforcesRestricted())
		}),
		website.Kind.GroupKind(): children(website.Kind, func(w *webappv1.Website, in inspect.ChildrenInput) []child.Desired {
			return website.Desired(w, in.Images)
		}),
	}
}

// children returns the functions of a plain kind.
func children[T any, P interface {
	*T
	metav1.Object
}](kind schema.GroupVersionKind, desired func(P, inspect.ChildrenInput) []child.Desired,
) inspect.KindFunctions {
	return inspect.KindFunctions{Children: func(object *unstructured.Unstructured, in inspect.ChildrenInput) ([]child.Rendered, error) {
		owner := P(new(T))
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, owner); err != nil {
			return nil, err
		}
		return child.Render(owner, kind, desired(owner, in)...)
	}}
}

// demoAppFields returns the values that the fields of a DemoApp give to its chart. The deployed
// values show which parts of spec.ingress the cluster supports.
func demoAppFields(object *unstructured.Unstructured, in inspect.FieldsInput) (inspect.Fields, error) {
	app := &demov1alpha1.DemoApp{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, app); err != nil {
		return inspect.Fields{}, err
	}
	apiKey, source := app.Spec.APIKey, ""
	if from := app.Spec.APIKeyFrom; from != nil {
		var err error
		if apiKey, err = in.Secret(from.Name, from.Key); err != nil {
			return inspect.Fields{}, err
		}
		source = "spec.apiKeyFrom Secret/" + from.Name + "[" + from.Key + "]"
	}
	supports := func(name string) bool {
		enabled, found, _ := unstructured.NestedBool(in.Deployed, name, "enabled")
		return found && enabled
	}
	ingress, httpRoute := supports("ingress"), supports("httpRoute")
	if app.Spec.Ingress == nil {
		ingress, httpRoute = false, false
	} else if !ingress && !httpRoute {
		ingress = true // No deployed object shows the features of the cluster. Most clusters have Ingress.
	}
	return inspect.Fields{
		Values: demoapp.FieldValues(app.Spec, in.Images, apiKey, ingress, httpRoute), Secret: [][]string{{"apiKey"}},
		Sources: map[string]string{
			"apiKey": cmp.Or(source, "spec.apiKey"), "ingress.enabled": "spec.ingress", "httpRoute.enabled": "spec.ingress", "httpRoute.host": "spec.ingress.host",
			"httpRoute.gateway.name": "spec.ingress.gateway.name", "httpRoute.gateway.namespace": "spec.ingress.gateway.namespace",
			"ingress.tls.enabled": "spec.ingress.tls",
		},
	}, nil
}

// restoreDemoApp restores the fields of a DemoApp that give values to its chart, except for the API
// key.
func restoreDemoApp(object *unstructured.Unstructured, recorded map[string]any) (notes []string, err error) {
	set := func(path []string, field ...string) {
		value, has, _ := unstructured.NestedFieldCopy(recorded, path...)
		at := append([]string{"spec"}, field...)
		switch {
		case err != nil:
		case !has || value == "" || value == int64(0) || value == float64(0):
			unstructured.RemoveNestedField(object.Object, at...)
		default:
			err = unstructured.SetNestedField(object.Object, value, at...)
		}
	}
	for _, field := range []string{"replicaCount", "image", "message", "nodeName"} {
		set([]string{field}, field)
	}
	if count, has, _ := unstructured.NestedNumberAsFloat64(recorded, "replicaCount"); has && count == 0 {
		err = cmp.Or(err, unstructured.SetNestedField(object.Object, int64(0), "spec", "replicaCount"))
	}
	for _, field := range []string{"type", "port", "nodePort"} {
		set([]string{"service", field}, "service", field)
	}
	app := &demov1alpha1.DemoApp{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, app); err != nil {
		return nil, err
	}
	now := demoapp.FieldValues(app.Spec, images.Table{}, "", false, false)
	for _, of := range []string{"ingress", "httpRoute"} {
		// The record has whether the cluster supported the object, which is not a field.
		fields, _, _ := unstructured.NestedMap(recorded, of)
		delete(fields, "enabled")
		current, _, _ := unstructured.NestedMap(now, of)
		delete(current, "enabled")
		if !reflect.DeepEqual(fields, current) {
			notes = append(notes, "spec.ingress is not restored: the record does not have all of its fields")
			break
		}
	}
	if key, _, _ := unstructured.NestedString(recorded, "apiKey"); app.Spec.APIKeyFrom != nil || key != app.Spec.APIKey {
		notes = append(notes, "the API key is not restored: it is a secret, and the record does not tell where it came from")
	}
	return notes, err
}
