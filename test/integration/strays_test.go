// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

var (
	cronJobResource    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	configMapResource  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	serviceResource    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deploymentResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// TestChildrenWithoutLabels: a child that loses its labels leaves the caches. The operator finds it
// by its name, recognizes its owner, and restores its labels. A stray object with the labels and
// the owner of a child is deleted, where the kind has no such child.
func TestChildrenWithoutLabels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// create creates an owner, waits until it is ready, and returns its namespace and kind.
		create func(*testing.T) (namespace, kind string)
		// children are the resources of children.
		children []schema.GroupVersionResource
		// prunes says that the operator may delete children of the kind.
		prunes bool
	}{
		{"Website", func(t *testing.T) (string, string) {
			s := newSite(t)
			s.create()
			s.awaitReady()
			return s.namespace, "Website"
		}, []schema.GroupVersionResource{configMapResource, serviceResource, deploymentResource}, true},
		{"WebApp", func(t *testing.T) (string, string) {
			s := newWebSite(t)
			s.create()
			s.awaitReady()
			return s.namespace, "WebApp"
		}, []schema.GroupVersionResource{serviceResource, deploymentResource}, true},
		{"MemcachedBackup", func(t *testing.T) (string, string) {
			c := newCaches(t)
			c.create(1)
			c.awaitPods(1)
			return c.namespace, "MemcachedBackup"
		}, []schema.GroupVersionResource{deploymentResource}, true},
		{"Backup", func(t *testing.T) (string, string) {
			v := newVault(t)
			v.createSecrets()
			v.create("0 2 * * *")
			v.awaitReady()
			return v.namespace, "Backup"
		}, []schema.GroupVersionResource{configMapResource, cronJobResource}, false},
		{"PostgreSQL", func(t *testing.T) (string, string) {
			d := newDatabases(t, true)
			d.create(func(s *databasev1.PostgreSQLSpec) { s.Replicas = ptr.To(int32(1)) })
			d.awaitReady()
			return d.namespace, "PostgreSQL"
		}, []schema.GroupVersionResource{configMapResource}, false},
		{"AppStack", func(t *testing.T) (string, string) {
			s := newStacks(t)
			s.run()
			return s.namespace, "AppStack"
		}, []schema.GroupVersionResource{serviceResource, deploymentResource}, false},
		{"EcommercePlatform", func(t *testing.T) (string, string) {
			s := newShops(t)
			s.run(shopInProduction, shopHost("strays.example.com"))
			return s.namespace, "EcommercePlatform"
		}, []schema.GroupVersionResource{configMapResource, serviceResource, deploymentResource, ingressResource, policyResource, budgetResource}, false},
		{"AppConfig", func(t *testing.T) (string, string) {
			c := newConfigured(t)
			c.create()
			c.awaitReady()
			return c.namespace, "AppConfig"
		}, []schema.GroupVersionResource{configMapResource}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			namespace, kind := test.create(t)
			for _, resource := range test.children {
				child := childOf(t, namespace, kind, resource)
				if test.prunes {
					assertPruned(t, resource, child)
				}
				assertLabelsRestored(t, resource, child)
			}
		})
	}
}

// childOf returns a child of the only owner of a kind in a namespace.
func childOf(t *testing.T, namespace, kind string, resource schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	list, err := shared.Dynamic.Resource(resource).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.Kind == kind {
			return &list.Items[i]
		}
	}
	t.Fatalf("the %s has no %s", kind, resource.Resource)
	return nil
}

// assertPruned creates a copy of a child under another name, and waits until the operator has
// deleted it.
func assertPruned(t *testing.T, resource schema.GroupVersionResource, child *unstructured.Unstructured) {
	t.Helper()
	client, stray := shared.Dynamic.Resource(resource).Namespace(child.GetNamespace()), child.DeepCopy()
	stray.Object["metadata"] = map[string]any{"name": "stray", "namespace": child.GetNamespace()}
	stray.SetLabels(child.GetLabels())
	stray.SetOwnerReferences(child.GetOwnerReferences())
	delete(stray.Object, "status")
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(stray.Object, "spec", field)
	}
	if _, err := client.Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the stray "+resource.Resource+" is gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, "stray", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// assertLabelsRestored removes the labels of a child, and waits until the operator has restored
// them.
func assertLabelsRestored(t *testing.T, resource schema.GroupVersionResource, child *unstructured.Unstructured) {
	t.Helper()
	client := shared.Dynamic.Resource(resource).Namespace(child.GetNamespace())
	_, err := client.Patch(t.Context(), child.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":null}}`),
		metav1.PatchOptions{FieldManager: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the labels of "+resource.Resource+" "+child.GetName()+" are restored", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, child.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return len(live.GetLabels()) > 0 && live.GetUID() == child.GetUID(), fmt.Errorf("labels are %v", live.GetLabels())
	})
}
