// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/test/cluster"
)

var (
	crdResource = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	demoApps     = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	demoClusters = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoappclusters"}
)

// fleet has the objects of an operator in one namespace: DemoApps of many specs, and resources of
// the other kinds of an old version.
type fleet struct {
	t         *testing.T
	tree      *tree
	namespace string
	// resources are the custom resources of the old version.
	resources []schema.GroupVersionResource
	// others are the objects that the test has created, apart from the DemoApps.
	others []*unstructured.Unstructured
}

// newFleet creates the namespace of a fleet. After the test, it removes the custom resources and
// their CRDs.
func newFleet(t *testing.T, tree *tree) *fleet {
	t.Helper()
	f := &fleet{t: t, tree: tree, namespace: shared.Namespace(t)}
	t.Cleanup(f.remove)
	return f
}

// create creates size DemoApps, and an object of each other kind of the old version.
func (f *fleet) create(size int) {
	f.t.Helper()
	f.discover()
	if err := shared.ApplyFiles(f.t.Context(), f.namespace, "test/upgrade/testdata/prerequisites.yaml"); err != nil {
		f.t.Fatal(err)
	}
	specs := f.specs()
	for i := range size {
		app := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(specs[i%len(specs)])}}
		app.SetAPIVersion(demoApps.GroupVersion().String())
		app.SetKind("DemoApp")
		app.SetName(fmt.Sprintf("web-%03d", i))
		if _, exposed, _ := unstructured.NestedMap(app.Object, "spec", "ingress"); exposed {
			// Two DemoApps cannot have the same host.
			host := app.GetName() + ".example.com"
			if err := unstructured.SetNestedField(app.Object, host, "spec", "ingress", "host"); err != nil {
				f.t.Fatal(err)
			}
		}
		f.apply(app)
	}
	if slices.Contains(f.tree.kinds, "postgresql") {
		for _, claim := range claimsOfTest {
			shared.Volume(f.t, f.namespace, claim, "10Gi")
		}
	}
	for _, kind := range f.tree.kinds {
		f.createExample(f.tree.path("artifacts/kinds", kind, "example.yaml"))
	}
	if slices.Contains(f.resources, demoClusters) {
		f.createExample(f.tree.path("artifacts/examples/demoappcluster.yaml"))
	}
}

// createExample creates the objects of an example of the old version.
func (f *fleet) createExample(path string) {
	f.t.Helper()
	objects, err := shared.Objects(path)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "Backup" {
			// A run during the test would change the status.
			if err := unstructured.SetNestedField(object.Object, true, "spec", "suspend"); err != nil {
				f.t.Fatal(err)
			}
		}
		f.apply(object)
		group := object.GroupVersionKind().Group
		if isOurs(group) {
			f.others = append(f.others, object)
		}
	}
}

func (f *fleet) apply(object *unstructured.Unstructured) {
	f.t.Helper()
	if err := shared.ApplyObject(f.t.Context(), f.namespace, object); err != nil {
		f.t.Fatal(err)
	}
}

// discover finds the custom resources of the old version.
func (f *fleet) discover() {
	f.t.Helper()
	for _, crd := range f.crds(f.t.Context()) {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		if group == "" || plural == "" || len(stored) != 1 {
			f.t.Fatalf("CRD %s: group %q, plural %q, stored versions %q", crd.GetName(), group, plural, stored)
		}
		f.resources = append(f.resources, schema.GroupVersionResource{Group: group, Version: stored[0], Resource: plural})
	}
}

// crds returns the live CRDs of the operator.
func (f *fleet) crds(ctx context.Context) []unstructured.Unstructured {
	f.t.Helper()
	list, err := shared.Dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(crd unstructured.Unstructured) bool {
		return !isOurs(crd.GetName())
	})
}

// isOurs reports whether an API group, or a CRD by its name, belongs to the operator.
func isOurs(name string) bool {
	return strings.HasSuffix(name, "example.com") || strings.HasSuffix(name, "cache.my.domain")
}

// specs returns the specs of testdata/specs.yaml whose fields the old version has.
func (f *fleet) specs() []map[string]any {
	f.t.Helper()
	content, err := os.ReadFile("testdata/specs.yaml")
	if err != nil {
		f.t.Fatal(err)
	}
	var all, supported []map[string]any
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		f.t.Fatal(err)
	}
	fields := f.specFields()
	for _, spec := range all {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(spec)), func(field string) bool { return fields[field] == nil }) {
			supported = append(supported, spec)
		}
	}
	f.t.Logf("%d of %d specs have only fields of %s", len(supported), len(all), f.tree.commit)
	return supported
}

// specFields returns the fields of the spec of a DemoApp.
func (f *fleet) specFields() map[string]any {
	f.t.Helper()
	crd, err := shared.Dynamic.Resource(crdResource).Get(f.t.Context(), "demoapps.demo.example.com", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	fields, _, err := unstructured.NestedMap(versions[0].(map[string]any), path...)
	if err != nil {
		f.t.Fatal(err)
	}
	return fields
}

// awaitReady waits until all custom resources are ready at their newest generation.
func (f *fleet) awaitReady() {
	f.t.Helper()
	cluster.Eventually(f.t.Context(), f.t, "all resources ready", func(ctx context.Context) (bool, error) {
		for id, object := range f.custom(ctx) {
			if !isReady(object) {
				status, err := json.Marshal(object.Object["status"])
				return false, fmt.Errorf("%s: %s %w", id, status, err)
			}
		}
		return true, nil
	})
}

// isReady reports whether the condition Ready is True at the newest generation.
func isReady(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if ok && condition["type"] == "Ready" {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			return condition["status"] == "True" && observed == object.GetGeneration()
		}
	}
	return false
}

// count returns the number of custom resources.
func (f *fleet) count() int { return len(f.custom(f.t.Context())) }

// custom returns the custom resources of the fleet, by resource and name.
func (f *fleet) custom(ctx context.Context) map[string]*unstructured.Unstructured {
	f.t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, resource := range f.resources {
		list, err := shared.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range list.Items {
			found[resource.Resource+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return found
}

// remove removes the custom resources and their CRDs without an operator.
func (f *fleet) remove() {
	f.t.Helper()
	ctx := context.WithoutCancel(f.t.Context())
	for _, resource := range f.resources {
		client := shared.Dynamic.Resource(resource)
		for id, object := range f.custom(ctx) {
			if !strings.HasPrefix(id, resource.Resource+"/") || len(object.GetFinalizers()) == 0 {
				continue
			}
			_, err := client.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType,
				[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				f.t.Error(err)
			}
		}
	}
	for _, crd := range f.crds(ctx) {
		if err := shared.Dynamic.Resource(crdResource).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil {
			f.t.Error(err)
		}
	}
	cluster.Eventually(ctx, f.t, "CRDs removed", func(ctx context.Context) (bool, error) { return len(f.crds(ctx)) == 0, nil })
}

// assertStored asserts that the CRDs of the new version serve each stored object without a loss,
// and accept each object as it is.
func (f *fleet) assertStored(before snapshot) {
	f.t.Helper()
	after := f.custom(f.t.Context())
	if len(after) != len(before.custom) {
		f.t.Errorf("%d custom resources, before the new CRDs %d", len(after), len(before.custom))
	}
	for id, object := range before.custom {
		if difference := cmp.Diff(object.Object, after[id].Object); difference != "" {
			f.t.Errorf("%s differs with the new CRDs (-before +after):\n%s", id, difference)
		}
	}
	for _, resource := range f.resources {
		for id, object := range after {
			if !strings.HasPrefix(id, resource.Resource+"/") {
				continue
			}
			_, err := shared.Dynamic.Resource(resource).Namespace(object.GetNamespace()).Update(f.t.Context(), object,
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				f.t.Errorf("the new CRDs refuse %s: %v", id, err)
			}
		}
	}
	f.assertStoredVersions()
}

// assertStoredVersions asserts that each CRD stores objects in one version, which is the storage
// version.
func (f *fleet) assertStoredVersions() {
	f.t.Helper()
	for _, crd := range f.crds(f.t.Context()) {
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, item := range versions {
			version, ok := item.(map[string]any)
			if ok && version["storage"] == true && !slices.Equal(stored, []string{fmt.Sprint(version["name"])}) {
				f.t.Errorf("%s stores %q, and new objects in %v", crd.GetName(), stored, version["name"])
			}
		}
	}
}
