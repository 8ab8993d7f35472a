// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDo(t *testing.T) {
	t.Parallel()
	const (
		plain    = "{}"
		paused   = "{annotations: {demo.example.com/paused: 'true', demo.example.com/paused-reason: before, other: x}}"
		bySpec   = "{conditions: [{type: Suspended, status: 'True', reason: SuspendedBySpec}]}"
		byParent = "{conditions: [{type: Suspended, status: 'True', reason: SuspendedByNamespace}]}"
		flux     = "{managedFields: [{manager: kustomize-controller, operation: Apply, fieldsV1: {f:spec: {f:suspend: {}}, f:metadata: {f:annotations: {f:demo.example.com/paused: {}}}}}]}"
		at       = "2026-03-01T12:00:00.5Z"
	)
	tests := []struct {
		name                   string
		metadata, spec, status string
		request                inspect.Request
		annotations            map[string]string
		suspend                any
		unchanged, notWritten  bool
		handled                string
		warnings               []string
	}{
		{
			name: "reconcile", metadata: paused, request: inspect.Request{Action: inspect.Reconcile}, handled: at,
			annotations: map[string]string{
				"demo.example.com/paused": "true", "demo.example.com/paused-reason": "before", "other": "x", "demo.example.com/requested-at": at,
			},
		},
		{
			name: "retry", request: inspect.Request{Action: inspect.Retry}, handled: at,
			annotations: map[string]string{"demo.example.com/requested-at": at, "demo.example.com/force-at": at},
		},
		{
			name: "reconcile of a suspended object", status: bySpec, request: inspect.Request{Action: inspect.Reconcile}, handled: at,
			annotations: map[string]string{"demo.example.com/requested-at": at},
			warnings:    []string{"DemoApp/web is suspended, and nothing of it is changed before kubectl demoapp resume demoapp/web"},
		},
		{
			name: "suspend", request: inspect.Request{Action: inspect.Suspend, Reason: "maintenance"},
			annotations: map[string]string{"demo.example.com/paused": "true", "demo.example.com/paused-reason": "maintenance"},
		},
		{
			name: "suspend without a reason", metadata: paused, request: inspect.Request{Action: inspect.Suspend},
			annotations: map[string]string{"demo.example.com/paused": "true", "other": "x"},
		},
		{
			name: "resume", metadata: paused, spec: "{suspend: true}", request: inspect.Request{Action: inspect.Resume},
			annotations: map[string]string{"other": "x"}, suspend: true,
		},
		{
			name: "resume of spec.suspend", spec: "{suspend: true}", status: bySpec, request: inspect.Request{Action: inspect.Resume}, suspend: false,
		},
		{name: "resume of an object that is not suspended", request: inspect.Request{Action: inspect.Resume}, unchanged: true},
		{
			name: "resume in a suspended namespace", status: byParent, request: inspect.Request{Action: inspect.Resume}, unchanged: true,
			warnings: []string{"DemoApp/web stays suspended by its Namespace; kubectl annotate namespace shop demo.example.com/paused- resumes all objects in it"},
		},
		{
			name: "resume of what a GitOps tool suspends", metadata: flux, spec: "{suspend: true}", status: bySpec,
			request: inspect.Request{Action: inspect.Resume}, suspend: false,
			warnings: []string{
				"kustomize-controller wrote the annotation demo.example.com/paused of DemoApp/web and will write it again; change it in Git instead",
				"kustomize-controller wrote the spec of DemoApp/web and will write spec.suspend again; change it in Git instead",
			},
		},
		{
			name: "dry run", request: inspect.Request{Action: inspect.Suspend, DryRun: "client"}, notWritten: true,
			annotations: map[string]string{"demo.example.com/paused": "true"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			orEmpty := func(text string) string {
				if text == "" {
					return plain
				}
				return text
			}
			app := "apiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: " + orEmpty(test.metadata) +
				"\nspec: " + orEmpty(test.spec) + "\nstatus: " + orEmpty(test.status) + "\n"
			object := objectOf(t, app)
			object.SetName("web")
			cluster, client := treeCluster(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}")
			apps := client.Resource(schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}).Namespace("shop")
			_, err := apps.Create(t.Context(), object, metav1.CreateOptions{})
			expect.NoError(t, err)
			test.request.At = time.Date(2026, 3, 1, 13, 0, 0, 5e8, time.FixedZone("CET", 3600))

			outcome, err := cluster.Do(t.Context(), inspect.ReferenceOf(object), test.request)

			expect.NoError(t, err)
			expect.Equal(t, "annotations", maps.Collect(maps.All(test.annotations)), maps.Collect(maps.All(outcome.Object.GetAnnotations())))
			suspend, _, _ := unstructured.NestedFieldNoCopy(outcome.Object.Object, "spec", "suspend")
			expect.Equal(t, "spec.suspend", test.suspend, suspend)
			expect.Equal(t, "changed", !test.unchanged, outcome.Changed)
			expect.Equal(t, "handled", test.handled, outcome.Handled)
			expect.Equal(t, "warnings", test.warnings, outcome.Warnings)
			stored, err := apps.Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			written := len(stored.GetAnnotations()) == len(test.annotations)
			expect.Equal(t, "written", !test.notWritten, written)
		})
	}
}

func TestDoRefusesAnUnknownAction(t *testing.T) {
	t.Parallel()
	cluster, _ := treeCluster(t, release)
	app := objectOf(t, "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: web}}")
	_, err := cluster.Do(t.Context(), inspect.ReferenceOf(app), inspect.Request{Action: "stop"})
	expect.Contains(t, "error", err.Error(), `no action "stop"; use reconcile, retry, suspend or resume`)
}
