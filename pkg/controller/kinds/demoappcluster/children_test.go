// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	demofake "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/expect"
)

func TestAppName(t *testing.T) {
	long := strings.Repeat("x", 42)
	tests := []struct{ name, cluster, node, want string }{
		{"short", "web", "node-1", "web-node-1"},
		{"maximum length", long, "0123456789", long + "-0123456789"},
		{"one character too long", long, "01234567890", long + "-0-" + hashOf("01234567890")},
		{"cut before a dash", "web", strings.Repeat("y", 39) + "-zzzzzzzzzz", "web-" + strings.Repeat("y", 39) + "-" + hashOf(strings.Repeat("y", 39)+"-zzzzzzzzzz")},
		{"dots", "web", "ip-10-0-0-1.ec2.internal", "web-ip-10-0-0-1-ec2-internal-" + hashOf("ip-10-0-0-1.ec2.internal")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := appName(test.cluster, test.node)
			expect.Equal(t, "name", test.want, got)
			if len(got) > maxAppName || len(validation.IsDNS1035Label(got)) > 0 {
				t.Errorf("%q is not a valid name of a DemoApp", got)
			}
		})
	}
	if appName("web", "a.b") == appName("web", "a-b") {
		t.Error("two nodes share a name")
	}
}

func hashOf(node string) string { return naming.Hashed("", node, 0, hashDigits) }

func TestTemplateHash(t *testing.T) {
	template := v1alpha1.DemoAppTemplate{Spec: v1alpha1.DemoAppSpec{Message: "one", APIKey: plainKey}}
	hash := templateHash(template)
	changed := *template.DeepCopy()
	changed.Spec.Message = "two"
	if templateHash(changed) == hash {
		t.Error("another message has the same hash")
	}
	secret := *template.DeepCopy()
	secret.Spec.APIKey = "another-key"
	secret.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"password": "guess me"}`)}
	if templateHash(secret) != hash {
		t.Error("the hash depends on secrets")
	}
	expect.Equal(t, "template", plainKey, template.Spec.APIKey)
}

// TestTemplateDoesNotAdopt: permission to edit DemoAppClusters does not allow the
// adoption of releases of other owners.
func TestTemplateDoesNotAdopt(t *testing.T) {
	cluster := &v1alpha1.DemoAppCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	cluster.Spec.Template.Metadata.Annotations = map[string]v1alpha1.AnnotationValue{
		releasev1alpha1.AnnotationAdoptRelease: "true", "example.com/team": "a",
	}

	app := desiredApp(cluster, "node", "hash")

	expect.Equal(t, "annotations", map[string]string{"example.com/team": "a"}, app.Annotations)
}

func TestChangedKeyIsRolledOut(t *testing.T) {
	w := settled(t, []string{"a"})
	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.Template.Spec.APIKey = "another-secret-key" })
	w.pass()
	expect.Equal(t, "key", "another-secret-key", w.app("web-a").Spec.APIKey)
}

// childrenWorld has the apps of the DemoAppCluster "web" on a fake API server, and a cache that the
// test fills.
type childrenWorld struct {
	t        *testing.T
	cluster  *v1alpha1.DemoAppCluster
	client   democlient.DemoAppInterface
	informer cache.SharedIndexInformer
	children children
}

func newChildrenWorld(t *testing.T) *childrenWorld {
	t.Helper()
	client := demofake.NewClientset()
	controllertest.Stamp(client)
	informer := externalversions.NewSharedInformerFactory(client, 0).Demo().V1alpha1().DemoApps().Informer()
	expect.NoError(t, informer.AddIndexers(cache.Indexers{byOwner: ownerIndex}))
	w := &childrenWorld{
		t: t, client: client.DemoV1alpha1().DemoApps(namespace), informer: informer,
		cluster:  &v1alpha1.DemoAppCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "cluster-uid"}},
		children: newChildren(map[string]cache.SharedIndexInformer{"": informer}),
	}
	_, err := w.client.Create(t.Context(), &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	w.informer.GetIndexer().Bookmark("1")
	return w
}

// desired returns the desired app of a node.
func (w *childrenWorld) desired(node string) *v1alpha1.DemoApp {
	return desiredApp(w.cluster, node, "hash")
}

// create creates the app of a node, and returns it.
func (w *childrenWorld) create(node string) *v1alpha1.DemoApp {
	w.t.Helper()
	expect.NoError(w.t, w.children.create(w.t.Context(), w.client, w.desired(node)))
	return w.get(node)
}

func (w *childrenWorld) get(node string) *v1alpha1.DemoApp {
	w.t.Helper()
	app, err := w.client.Get(w.t.Context(), appName(w.cluster.Name, node), metav1.GetOptions{})
	expect.NoError(w.t, err)
	return app
}

// cache sets the cached apps and the version of the cache.
func (w *childrenWorld) cache(version string, apps ...*v1alpha1.DemoApp) {
	w.t.Helper()
	var objects []any
	for _, app := range apps {
		objects = append(objects, app)
	}
	expect.NoError(w.t, w.informer.GetIndexer().Replace(objects, version))
}

func (w *childrenWorld) names() []string {
	return slices.Sorted(maps.Keys(w.children.of(w.cluster)))
}

func TestCreatedAppIsKnownBeforeTheCacheHasIt(t *testing.T) {
	w := newChildrenWorld(t)

	created := w.create("a")

	expect.Equal(t, "before", []string{"web-a"}, w.names())
	w.cache("1", w.desired("b"))
	expect.Equal(t, "with another one", []string{"web-a", "web-b"}, w.names())
	w.cache(created.ResourceVersion, created)
	expect.Equal(t, "once it is cached", []string{"web-a"}, w.names())
}

func TestCreatedAppIsDeletedBeforeCache(t *testing.T) {
	w := newChildrenWorld(t)

	w.create("a")
	w.cache("1000")
	expect.Equal(t, "once the cache has a later version", []string(nil), w.names())

	w = newChildrenWorld(t)
	w.create("a")
	w.cluster.UID = "another"
	expect.Equal(t, "for a successor of the owner", []string(nil), w.names())
}

func TestCacheWithoutVersionIsTrusted(t *testing.T) {
	w := newChildrenWorld(t)

	w.create("a")
	w.cache("")

	expect.Equal(t, "apps", []string(nil), w.names())
}

func TestNameThatIsTaken(t *testing.T) {
	w := newChildrenWorld(t)
	theirs, err := w.client.Create(t.Context(), &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-a"}}, metav1.CreateOptions{})
	expect.NoError(t, err)

	expect.NoError(t, w.children.create(t.Context(), w.client, w.desired("a")))

	expect.Equal(t, "theirs", theirs, w.get("a"))
	expect.Equal(t, "apps", []string(nil), w.names())
}

func TestUpdatedAppIsKnownBeforeTheCacheHasIt(t *testing.T) {
	w := newChildrenWorld(t)
	before := w.create("a")
	w.cache(before.ResourceVersion, before)
	changed := before.DeepCopy()
	changed.Spec.Message = "changed"

	expect.NoError(t, w.children.update(t.Context(), w.client, changed))

	expect.Equal(t, "message while the cache is behind", "changed", w.children.of(w.cluster)["web-a"].Spec.Message)
	if err := w.children.update(t.Context(), w.client, changed); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
}

func TestDeletedAppIsLeaving(t *testing.T) {
	w := newChildrenWorld(t)
	app := w.create("a")
	w.cache(app.ResourceVersion, app)
	if w.children.isLeaving(app) {
		t.Error("leaves before it is deleted")
	}

	expect.NoError(t, w.children.delete(t.Context(), w.client, app))
	expect.NoError(t, w.children.delete(t.Context(), w.client, app)) // It is gone.

	expect.Equal(t, "apps while the cache is behind", []string{"web-a"}, w.names())
	if !w.children.isLeaving(app) {
		t.Error("does not leave after it was deleted")
	}
	again := w.create("a")
	expect.NoError(t, w.children.delete(t.Context(), w.client, app))
	expect.Equal(t, "its successor", again.UID, w.get("a").UID)
	w.cache(again.ResourceVersion, again)
	expect.Equal(t, "apps with the successor", []string{"web-a"}, w.names())
	if w.children.isLeaving(again) {
		t.Error("the successor leaves")
	}
}
