// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
)

// namespacedKind is an opt-in kind that runs without any ClusterRole.
type namespacedKind struct {
	// name is the name of the directory in artifacts/kinds, and of the controller.
	name     string
	resource schema.GroupVersionResource
	change   string
	// child is the resource of an object that the operator creates again after a deletion.
	child     schema.GroupVersionResource
	childName string
	// claims are the volume claims of its pods.
	claims []string
	// unneeded are the granted verbs and permissions that this life of an object does not need.
	unneeded []string
}

func namespacedKinds() []namespacedKind {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	return []namespacedKind{
		{
			name:     "website",
			resource: schema.GroupVersionResource{Group: "webapp.example.com", Version: "v1", Resource: "websites"},
			change:   `{"spec": {"html": "<h1>Changed</h1>"}}`,
			child:    deployments, childName: "website-sample",
			unneeded: []string{"get", "delete"},
		},
		{
			name:     "appconfig",
			resource: schema.GroupVersionResource{Group: "config.example.com", Version: "v1", Resource: "appconfigs"},
			change:   `{"spec": {"values": {"logLevel": "debug"}}}`,
			child:    configMaps, childName: "shop-config",
			unneeded: []string{"get", "delete", "patch statefulsets.apps", "patch daemonsets.apps"},
		},
		{
			name:     "memcachedbackup",
			resource: schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcachedbackups"},
			change:   `{"spec": {"size": 1}}`,
			child:    deployments, childName: "memcachedbackup-sample",
			unneeded: []string{"get", "delete"},
		},
		{
			name:     "webapp",
			resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "webapps"},
			change:   `{"spec": {"replicas": 1}}`,
			child:    deployments, childName: "webapp-sample",
			unneeded: []string{"get", "delete", "patch webapps.example.com"},
		},
		{
			name:     "backup",
			resource: schema.GroupVersionResource{Group: "backup.example.com", Version: "v1", Resource: "backups"},
			change:   `{"spec": {"retention": "7d"}}`,
			child:    schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, childName: "backup-sample-cronjob",
			unneeded: []string{"get", "create jobs.batch"},
		},
		{
			name:     "postgresql",
			resource: schema.GroupVersionResource{Group: "database.example.com", Version: "v1", Resource: "postgresqls"},
			change:   `{"spec": {"replicas": 1}}`,
			child:    services, childName: "postgresql-sample",
			claims: []string{"data-postgresql-sample-0", "data-postgresql-sample-1"},
			unneeded: []string{
				"get", "delete", "patch secrets", "patch persistentvolumeclaims",
				"create backups.backup.example.com", "patch backups.backup.example.com",
			},
		},
		{
			name:     "appstack",
			resource: schema.GroupVersionResource{Group: "app.example.com", Version: "v1", Resource: "appstacks"},
			change:   `{"spec": {"frontend": {"replicas": 2}}}`,
			child:    deployments, childName: "appstack-sample-frontend",
			claims:   []string{"data-appstack-sample-db-0"},
			unneeded: []string{"get", "delete"},
		},
		{
			name:     "ecommerceplatform",
			resource: schema.GroupVersionResource{Group: "platform.example.com", Version: "v1", Resource: "ecommerceplatforms"},
			change:   `{"spec": {"frontend": {"replicas": 2}}}`,
			child:    deployments, childName: "shop-sample-frontend",
			claims: []string{"data-shop-sample-db-0"},
			unneeded: []string{
				"get", "delete", "patch secrets", "create networkpolicies.networking.k8s.io", "patch networkpolicies.networking.k8s.io",
				"create backups.backup.example.com", "patch backups.backup.example.com", "list servicemonitors.monitoring.coreos.com",
				"watch servicemonitors.monitoring.coreos.com", "create servicemonitors.monitoring.coreos.com",
				"patch servicemonitors.monitoring.coreos.com",
			},
		},
	}
}

// TestNamespacedRolesOfKinds runs opt-in kinds in one namespace, without any ClusterRole: their
// objects become ready, are changed, and get a deleted child back.
func TestNamespacedRolesOfKinds(t *testing.T) {
	namespace := shared.Namespace(t)
	v := newVariant(t)
	v.apply(v.namespace, namespacedDir+"operator.yaml")
	v.apply(namespace, namespacedDir+"watched.yaml")
	controllers := "--controllers="
	for _, kind := range namespacedKinds() {
		if err := shared.InstallCRDs(t.Context(), "artifacts/kinds/"+kind.name+"/crd.yaml"); err != nil {
			t.Fatal(err)
		}
		v.apply(namespace, namespacedDir+"kinds/"+kind.name+".yaml")
		controllers += kind.name + ","
	}
	v.start("--namespaces="+namespace, "--audit-namespace="+v.audit, controllers[:len(controllers)-1])

	for _, kind := range namespacedKinds() {
		kind.live(t, namespace)
	}
	assertRefusedPodIsExplained(t, namespace)

	requests := v.sent()
	// The API server does not serve ServiceMonitors, and the operator may not watch for their CRD.
	v.assertRefused(requests, map[string]int{"customresourcedefinitions": 12})
	v.assertInside(requests, namespace)
	for _, kind := range namespacedKinds() {
		v.assertUsed(namespacedDir+"kinds/"+kind.name+".yaml", namespace, "", requests, kind.unneeded...)
	}
}

// assertRefusedPodIsExplained has a quota refuse the second server of the PostgreSQL. Only events
// say why, which the operator may list.
func assertRefusedPodIsExplained(t *testing.T, namespace string) {
	t.Helper()
	shared.Forbid(t.Context(), t, namespace, "pods")
	client := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "database.example.com", Version: "v1", Resource: "postgresqls"}).Namespace(namespace)
	scaled := []byte(`{"spec": {"replicas": 2}}`)
	if _, err := client.Patch(t.Context(), "postgresql-sample", types.MergePatchType, scaled, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the message has the quota", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, "postgresql-sample", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		return strings.Contains(fmt.Sprint(conditions), "exceeded quota: none"), errors.Join(err, fmt.Errorf("conditions are %v", conditions))
	})
}

// live applies the example of the kind, changes it, and deletes a child.
func (k namespacedKind) live(t *testing.T, namespace string) {
	t.Helper()
	file := "artifacts/kinds/" + k.name + "/example.yaml"
	objects, err := shared.Objects(file)
	if err != nil {
		t.Fatal(err)
	}
	owner := objects[slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group == k.resource.Group })]
	for _, claim := range k.claims {
		shared.Volume(t, namespace, claim, "10Gi")
	}
	if err := shared.ApplyFiles(t.Context(), namespace, file); err != nil {
		t.Fatal(err)
	}
	shared.AwaitReady(t.Context(), t, namespace, owner)

	_, err = shared.Dynamic.Resource(k.resource).Namespace(namespace).Patch(
		t.Context(), owner.GetName(), types.MergePatchType, []byte(k.change), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shared.AwaitReady(t.Context(), t, namespace, owner)

	children := shared.Dynamic.Resource(k.child).Namespace(namespace)
	deleted, err := children.Get(t.Context(), k.childName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := children.Delete(t.Context(), k.childName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, k.childName+" exists again", func(ctx context.Context) (bool, error) {
		live, err := children.Get(ctx, k.childName, metav1.GetOptions{})
		return err == nil && live.GetUID() != deleted.GetUID(), err
	})
	shared.AwaitReady(t.Context(), t, namespace, owner)
}
