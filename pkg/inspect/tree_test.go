// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// kindsOfTrees are the kinds of the objects in tests of trees.
var kindsOfTrees = []*metav1.APIResourceList{
	{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Name: "pods", Kind: "Pod", Namespaced: true},
		{Name: "namespaces", Kind: "Namespace"},
		{Name: "nodes", Kind: "Node"},
		{Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true},
		{Name: "resourcequotas", Kind: "ResourceQuota", Namespaced: true},
		{Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true},
		{Name: "services", Kind: "Service", Namespaced: true},
	}},
	{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
		{Name: "deployments", Kind: "Deployment", Namespaced: true}, {Name: "replicasets", Kind: "ReplicaSet", Namespaced: true},
	}},
	{GroupVersion: "serving.example.com/v1", APIResources: []metav1.APIResource{{Name: "services", Kind: "Service", Namespaced: true}}},
	{GroupVersion: "demo.example.com/v1alpha1", APIResources: []metav1.APIResource{
		{Name: "demoapps", Kind: "DemoApp", Namespaced: true, Categories: []string{apimeta.Category}},
		{Name: "demoappclusters", Kind: "DemoAppCluster", Namespaced: true, Categories: []string{apimeta.Category}},
	}},
	{GroupVersion: "webapp.example.com/v1", APIResources: []metav1.APIResource{
		{Name: "websites", Kind: "Website", Namespaced: true, Categories: []string{apimeta.Category}},
	}},
	{GroupVersion: "cache.my.domain/v1", APIResources: []metav1.APIResource{{Name: "memcacheds", Kind: "Memcached", Namespaced: true}}},
}

// treeCluster returns a cluster with objects, as YAML documents, and its dynamic client.
func treeCluster(t *testing.T, documents string) (*inspect.Cluster, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	kube := kubefake.NewClientset()
	discovery, ok := kube.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatal("the clientset has another discovery client")
	}
	discovery.Resources = kindsOfTrees
	mapper := meta.NewDefaultRESTMapper(nil)
	lists := map[schema.GroupVersionResource]string{}
	for _, list := range kindsOfTrees {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		expect.NoError(t, err)
		for _, resource := range list.APIResources {
			scope := meta.RESTScopeRoot
			if resource.Namespaced {
				scope = meta.RESTScopeNamespace
			}
			mapper.AddSpecific(version.WithKind(resource.Kind), version.WithResource(resource.Name), version.WithResource(resource.Name), scope)
			lists[version.WithResource(resource.Name)] = resource.Kind + "List"
		}
	}
	var objects, records []runtime.Object
	for document := range strings.SplitSeq(documents, "---\n") {
		object := &unstructured.Unstructured{}
		content, err := yaml.YAMLToJSON([]byte(document))
		expect.NoError(t, err)
		expect.NoError(t, object.UnmarshalJSON(content))
		if object.GetKind() != "Namespace" && object.GetKind() != "Node" {
			object.SetNamespace("shop")
		}
		objects = append(objects, object)
		if object.GetKind() == "Secret" {
			records = append(records, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: object.GetName(), Labels: object.GetLabels()},
			})
		}
	}
	known := metadatafake.NewTestScheme()
	expect.NoError(t, metav1.AddMetaToScheme(known))
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	return inspect.New(inspect.Clients{
		Kubernetes: kube, Dynamic: client, Metadata: metadatafake.NewSimpleMetadataClient(known, records...), Discovery: discovery, Mapper: mapper,
	}, operatorLease), client
}

// outline returns a tree as lines, with an indent for each level.
func outline(node *inspect.Node, indent string) string {
	line := indent + node.String() + " " + string(node.Health.Status)
	for _, revision := range node.Revisions {
		line += fmt.Sprintf(" %d=%s", revision.Number, revision.Status)
	}
	if node.Err != nil {
		line += " err"
	}
	line += "\n"
	for _, child := range node.Children {
		line += outline(child, indent+"  ")
	}
	return line
}

const release = `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web, uid: app, labels: {demo.example.com/cluster: page}, ownerReferences: [{apiVersion: demo.example.com/v1alpha1, kind: DemoAppCluster, name: page, uid: page, controller: true}]}
status:
  observedGeneration: 0
  conditions: [{type: Ready, status: "True"}]
  deployedRelease: {name: web, revision: 2, chart: demo-app, chartVersion: 0.1.0}
  inventory:
  - {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: dep}
  - {apiVersion: v1, kind: Secret, namespace: shop, name: web}
  - {apiVersion: v1, kind: ConfigMap, namespace: shop, name: replaced, uid: before}
  - {apiVersion: v1, kind: Service, namespace: shop, name: gone}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: dep, generation: 1}
spec: {replicas: 1}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, uid: rs1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: dep, controller: true}]}
spec: {replicas: 0}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-2, uid: rs2, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: dep, controller: true}]}
spec: {replicas: 1}
status: {replicas: 1, readyReplicas: 1, availableReplicas: 1, fullyLabeledReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2-a, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-2, uid: rs2, controller: true}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-2, uid: before, controller: true}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: replaced, uid: after}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
data: {password: aHVudGVyMg==}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.web.v1, labels: {owner: helm, name: web, version: "1", status: superseded}}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.web.v2, labels: {owner: helm, name: web, version: "2", status: deployed}}
---
apiVersion: demo.example.com/v1alpha1
kind: DemoAppCluster
metadata: {name: page, uid: page}
---
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: site, uid: site}
status: {children: {applied: [{kind: Service, name: site}, {kind: Widget, name: site}]}}
---
apiVersion: v1
kind: Service
metadata: {name: site}
`

func TestTree(t *testing.T) {
	app := `DemoApp/web Current 2=deployed 1=superseded
  ConfigMap/replaced NotFound
  Deployment/web Current
    ReplicaSet/web-2 Current
      Pod/web-2-a Current
  Secret/web Current
  Service/gone NotFound
`
	tests := []struct{ name, kind, object, want string }{
		{"release", "DemoApp", "web", app},
		{
			"objects that the status does not name", "DemoAppCluster", "page",
			"DemoAppCluster/page InProgress\n  " + strings.ReplaceAll(strings.TrimSuffix(app, "\n"), "\n", "\n  ") + "\n",
		},
		{"children named by kind alone, one of an unknown kind", "Website", "site", "Website/site InProgress err\n  Service/site Current\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, _ := treeCluster(t, release)
			kind, err := cluster.Kind(t.Context(), tt.kind)
			expect.NoError(t, err)

			root, err := cluster.Tree(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: tt.object})

			expect.NoError(t, err)
			expect.Equal(t, "tree", tt.want, outline(root, ""))
			root.All(func(node *inspect.Node) bool {
				if node.Kind == "Secret" && node.Object.Object["data"] != nil {
					t.Error("the tree has the data of a Secret")
				}
				return true
			})
		})
	}
}

// TestOverview: an overview has a ready object of the operator, and nothing below it.
func TestOverview(t *testing.T) {
	cluster, client := treeCluster(t, release)
	kind, err := cluster.Kind(t.Context(), "demoappcluster")
	expect.NoError(t, err)
	client.ClearActions()

	root, err := cluster.Overview(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "page"})

	expect.NoError(t, err)
	expect.Equal(t, "tree", "DemoAppCluster/page InProgress\n  DemoApp/web Current\n", outline(root, ""))
	expect.Equal(t, "requests", 2, len(client.Actions()))
}

func TestTreeGoesOnWithoutAPermission(t *testing.T) {
	cluster, client := treeCluster(t, release)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource().GroupResource()
		if resource.Resource == corev1.ResourceSecrets.String() || resource.Resource == corev1.ResourcePods.String() {
			return true, nil, apierrors.NewForbidden(resource, "", fmt.Errorf("not allowed"))
		}
		return false, nil, nil
	})
	kind, err := cluster.Kind(t.Context(), "demoapp")
	expect.NoError(t, err)

	root, err := cluster.Tree(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"})

	expect.NoError(t, err)
	expect.Equal(t, "tree", `DemoApp/web Current 2=deployed 1=superseded
  ConfigMap/replaced NotFound
  Deployment/web Current
    ReplicaSet/web-2 Current err
  Secret/web Unknown err
  Service/gone NotFound
`, outline(root, ""))
}

// TestTreeOfManyAppsListsOnce asserts that the requests for a tree do not grow with its objects.
func TestTreeOfManyAppsListsOnce(t *testing.T) {
	const apps = 30
	documents := "apiVersion: demo.example.com/v1alpha1\nkind: DemoAppCluster\nmetadata: {name: page, uid: page}\n"
	want := "DemoAppCluster/page InProgress\n"
	for i := range apps {
		name := fmt.Sprintf("web-%02d", i)
		documents += fmt.Sprintf(`---
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: %[1]s, uid: %[1]s-app, labels: {demo.example.com/cluster: page}, ownerReferences: [{apiVersion: demo.example.com/v1alpha1, kind: DemoAppCluster, name: page, uid: page, controller: true}]}
status:
  observedGeneration: 0
  conditions: [{type: Ready, status: "True"}]
  deployedRelease: {name: %[1]s, revision: 1, chart: demo-app, chartVersion: 0.1.0}
  inventory:
  - {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: %[1]s, uid: %[1]s-dep}
  - {apiVersion: v1, kind: Secret, namespace: shop, name: %[1]s}
  - {apiVersion: v1, kind: Service, namespace: shop, name: %[1]s}
---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, uid: %[1]s-dep, generation: 1}
spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: %[1]s-1, uid: %[1]s-rs, labels: {app: %[1]s}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: %[1]s, uid: %[1]s-dep, controller: true}]}
spec: {replicas: 1}
status: {replicas: 1, readyReplicas: 1, availableReplicas: 1, fullyLabeledReplicas: 1}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.%[1]s.v1, labels: {owner: helm, name: %[1]s, version: "1", status: deployed}}
`, name)
		want += fmt.Sprintf("  DemoApp/%[1]s Current 1=deployed\n    Deployment/%[1]s Current\n      ReplicaSet/%[1]s-1 Current\n    Secret/%[1]s Current\n    Service/%[1]s NotFound\n", name)
	}
	cluster, client := treeCluster(t, documents)
	kind, err := cluster.Kind(t.Context(), "demoappcluster")
	expect.NoError(t, err)
	client.ClearActions()

	root, err := cluster.Tree(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "page"})

	expect.NoError(t, err)
	expect.Equal(t, "tree", want, outline(root, ""))
	var requests []string
	for _, action := range client.Actions() {
		requests = append(requests, action.GetVerb()+" "+action.GetResource().Resource)
	}
	slices.Sort(requests)
	expect.Equal(t, "requests", []string{
		"get demoappclusters", "list demoapps", "list deployments", "list pods", "list replicasets", "list services",
	}, requests)
}
