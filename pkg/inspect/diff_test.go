// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// TestDiffAtRest: the marks that the engine writes on objects outside the release's namespace are no
// difference.
func TestDiffAtRest(t *testing.T) {
	const manifest = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n" +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: other}\n" +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\n"
	server := fakeapi.New(t)
	objects := map[string]struct{ kind, name string }{
		"inside": {"ConfigMap", "shop/web"}, "outside": {"ConfigMap", "other/web"}, "cluster-scoped": {"ClusterRole", "web"},
	}
	for where, object := range objects {
		marks := map[string]any{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}
		if where != "inside" {
			marks[helm.PrimaryResourceAnnotation], marks[helm.PrimaryResourceTypeAnnotation] = "shop/web", "Memcached.cache.my.domain"
		}
		server.Edit(object.kind, object.name, "kubectl", func(*unstructured.Unstructured) {})
		server.Apply(object.kind, object.name, helm.FieldManager, map[string]any{"metadata": map[string]any{
			"labels": map[string]any{"app.kubernetes.io/managed-by": "Helm"}, "annotations": marks,
		}})
	}
	client, err := dynamic.NewForConfigAndClient(server.RESTConfig(), server.HTTPClient())
	expect.NoError(t, err)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "cache.my.domain", Version: "v1", Kind: "Memcached"}, meta.RESTScopeNamespace)
	kube := kubefake.NewClientset()
	expect.NoError(t, kube.Tracker().Add(recorded{revision: 1, status: "deployed", manifest: manifest, labels: ours(1)}.secret(t)))
	differ := inspect.Differ{Cluster: inspect.New(inspect.Clients{Dynamic: client, Kubernetes: kube, Mapper: mapper}, operatorLease)}
	owner := objectOf(t, "{apiVersion: cache.my.domain/v1, kind: Memcached, metadata: {name: web, uid: app}, "+
		"status: {deployedRelease: {name: web, revision: 1}}}")

	found, err := differ.Live(t.Context(), owner)

	expect.NoError(t, err)
	expect.Equal(t, "compared objects", len(objects), len(found))
	for _, difference := range found {
		if difference.Differs() {
			t.Errorf("%s differs:\n%s\n%s", difference.Reference, difference.Before, difference.After)
		}
	}
}
