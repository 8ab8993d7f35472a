// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/test/cluster"
)

// world is the observed state after a step of one player. Unavoidable differences between players
// are removed.
type world struct {
	// Error is the class of the step's error.
	Error string
	// Objects maps "kind.group namespace/name" to the live object.
	Objects map[string]any
	// Records maps the name of a Secret to the release record in it.
	Records map[string]any
	// Hooks are the hook events of this step, in order.
	Hooks []string
	// Created and Deleted are the resources of the created and the deleted objects of this step, in
	// order. Custom resources come first in Deleted: the engine deletes them before the workloads that
	// may control them, and Helm after these.
	Created, Deleted []string
}

// preferred maps a resource to the version in which objects are read, because players may write
// different versions. Resources of CRDs in charts are absent, because they have one version.
var preferred = sync.OnceValues(func() (map[schema.GroupResource]string, error) {
	lists, err := discovery.ServerPreferredResources(shared.Client.Discovery())
	if err != nil {
		return nil, err
	}
	versions := map[schema.GroupResource]string{}
	for _, list := range lists {
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			versions[groupVersion.WithResource(resource.Name).GroupResource()] = groupVersion.Version
		}
	}
	return versions, nil
})

// liveObjects returns the objects in a player's namespaces, and the cluster-scoped objects whose
// names contain the namespace. Objects that controllers created are omitted. liveObjects waits
// until no object is being deleted.
func liveObjects(ctx context.Context, t testing.TB, touched []place, namespace string) []*unstructured.Unstructured {
	t.Helper()
	versions, err := preferred()
	if err != nil {
		t.Fatalf("discover the kinds of the API server: %v", err)
	}
	places := map[place]bool{
		// Other clients also create ConfigMaps, which the player's journal does not record.
		{corev1.SchemeGroupVersion.WithResource("configmaps"), namespace}: true,
	}
	for _, p := range touched {
		if version, ok := versions[p.GroupResource()]; ok {
			p.Version = version
		}
		places[p] = true
	}
	var live []*unstructured.Unstructured
	cluster.Eventually(ctx, t, "removal of the deleted objects", func(ctx context.Context) (bool, error) {
		live, err = listAll(ctx, slices.Collect(maps.Keys(places)), namespace)
		if err != nil {
			return false, err
		}
		for _, object := range live {
			if object.GetDeletionTimestamp() != nil {
				return false, fmt.Errorf("%s is being deleted, finalizers %q", nameOf(object), object.GetFinalizers())
			}
		}
		return true, nil
	})
	return live
}

func listAll(ctx context.Context, places []place, namespace string) ([]*unstructured.Unstructured, error) {
	var (
		mu   sync.Mutex
		live []*unstructured.Unstructured
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, p := range places {
		group.Go(func() error {
			items, err := shared.Dynamic.Resource(p.GroupVersionResource).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return nil // The CRD does not exist yet, or no longer exists.
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", p.Resource, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range items.Items {
				if item := &items.Items[i]; ofRelease(item, namespace) {
					live = append(live, item)
				}
			}
			return nil
		})
	}
	return live, group.Wait()
}

// ofRelease reports whether a release in the namespace created the object, rather than the cluster
// or a controller.
func ofRelease(object *unstructured.Unstructured, namespace string) bool {
	switch object.GetKind() + "/" + object.GetName() {
	case "ConfigMap/kube-root-ca.crt", "ServiceAccount/default":
		return false
	}
	record := object.GetKind() == "Secret" && strings.HasPrefix(object.GetName(), recordPrefix)
	if record || metav1.GetControllerOf(object) != nil || object.GetLabels()["endpoints.kubernetes.io/managed-by"] != "" {
		return false
	}
	if object.GetKind() == "Namespace" && (object.GetName() == namespace || object.GetName() == namespace+otherNamespace) {
		return false // The test created it.
	}
	return object.GetNamespace() != "" || strings.Contains(object.GetName(), namespace)
}

// nameOf returns the object's name for messages and comparisons.
func nameOf(object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	return object.GroupVersionKind().GroupKind().String() + " " + name
}

// look returns the world of a player after a step. failure is the step's error; its class must be
// known.
func look(ctx context.Context, t testing.TB, p player, failure error) world {
	t.Helper()
	namespace, journal := p.home()
	requests := journal.take()
	w := world{
		Error:   classOf(failure),
		Objects: map[string]any{},
		Records: recordsIn(ctx, t, namespace),
		Hooks:   hooksOf(requests),
		Created: kindsOf(requests, request.created),
		Deleted: customFirst(kindsOf(requests, request.deleted)),
	}
	for _, object := range liveObjects(ctx, t, journal.places(), namespace) {
		normalized := normalize(object)
		w.Objects[anonymous(nameOf(object), namespace)] = anonymize(normalized, namespace, string(object.GetUID()))
	}
	return w
}

// customFirst returns resources with custom resources first.
func customFirst(resources []string) []string {
	builtin := sets.New("customresourcedefinitions", "apiservices")
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		builtin.Insert(plural.Resource)
	}
	rank := func(resource string) int {
		if builtin.Has(resource) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(resources, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return resources
}

// otherNamespace is the suffix of a second namespace for objects of a chart.
const otherNamespace = "-other"

// anonymous replaces the namespace in a text, because each player has another namespace.
func anonymous(text, namespace string) string {
	return strings.ReplaceAll(text, namespace, "NAMESPACE")
}

// anonymize replaces the namespace and the UID in all strings and keys of a value, because they
// differ between players.
func anonymize(value any, namespace, uid string) any {
	clean := func(text string) string {
		if uid != "" {
			text = strings.ReplaceAll(text, uid, "UID")
		}
		return anonymous(text, namespace)
	}
	switch value := value.(type) {
	case string:
		return clean(value)
	case []any:
		for i := range value {
			value[i] = anonymize(value[i], namespace, uid)
		}
		return value
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(value)) {
			cleaned := anonymize(value[key], namespace, uid)
			delete(value, key)
			value[clean(key)] = cleaned
		}
		return value
	default:
		return value
	}
}

// newNamespace creates a namespace for a test. The namespace is not deleted, because deletions
// would be most of the API server's work. The control plane stops after the tests.
func newNamespace(t testing.TB) string {
	t.Helper()
	created, err := shared.Client.CoreV1().Namespaces().
		Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}
