// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/example/demoapp-controller/test/cluster"
)

// world is all that one player's steps have led to, without what cannot be equal.
type world struct {
	// Error is the class of the step's error.
	Error string
	// Objects are the live objects by "kind.group namespace/name".
	Objects map[string]any
	// Records are the release records by the names of their Secrets.
	Records map[string]any
	// Hooks are what happened to hooks in this step, in order.
	Hooks []string
	// Created and Deleted are the resources that objects were created of and deleted from in this step, in order.
	Created, Deleted []string
}

// notOfReleases are resources whose objects are made by the cluster itself, or that tell nothing.
var notOfReleases = sets.New(
	"componentstatuses", "events", "events.events.k8s.io", "nodes", "csinodes.storage.k8s.io",
	"ipaddresses.networking.k8s.io", "controllerrevisions.apps", "apiservices.apiregistration.k8s.io",
)

// kindOf is a resource that can be listed.
type kindOf struct {
	schema.GroupVersionResource

	namespaced bool
}

// builtinKinds are the resources that the API server serves before any CRD is made.
var builtinKinds = sync.OnceValues(func() ([]kindOf, error) {
	lists, err := discovery.ServerPreferredResources(shared.Client.Discovery())
	if err != nil {
		return nil, err
	}
	var kinds []kindOf
	for _, list := range lists {
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			kind := kindOf{groupVersion.WithResource(resource.Name), resource.Namespaced}
			if slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "delete") &&
				!notOfReleases.Has(kind.GroupResource().String()) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds, nil
})

// liveObjects returns the objects that lie in the namespaces, or are cluster-scoped and have a namespace's name in
// theirs. It leaves out what controllers made, and waits until what is being deleted is gone.
func liveObjects(t testing.TB, extra []kindOf, namespaces ...string) []*unstructured.Unstructured {
	t.Helper()
	kinds, err := builtinKinds()
	if err != nil {
		t.Fatalf("discover the kinds of the API server: %v", err)
	}
	var live []*unstructured.Unstructured
	cluster.Eventually(t.Context(), t, "end of the objects that are deleted", func(ctx context.Context) (bool, error) {
		live, err = listAll(ctx, append(slices.Clone(kinds), extra...), namespaces)
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

func listAll(ctx context.Context, kinds []kindOf, namespaces []string) ([]*unstructured.Unstructured, error) {
	var (
		mu   sync.Mutex
		live []*unstructured.Unstructured
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	list := func(kind kindOf, namespace string) {
		group.Go(func() error {
			items, err := shared.Dynamic.Resource(kind.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return nil // The CRD is not there yet, or no more.
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.Resource, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range items.Items {
				if item := &items.Items[i]; ofRelease(item, namespaces) {
					live = append(live, item)
				}
			}
			return nil
		})
	}
	for _, kind := range kinds {
		if !kind.namespaced {
			list(kind, "")
			continue
		}
		for _, namespace := range namespaces {
			list(kind, namespace)
		}
	}
	return live, group.Wait()
}

// ofRelease reports whether a release made the object, rather than the cluster or a controller.
func ofRelease(object *unstructured.Unstructured, namespaces []string) bool {
	switch object.GetKind() + "/" + object.GetName() {
	case "ConfigMap/kube-root-ca.crt", "ServiceAccount/default":
		return false
	}
	if metav1.GetControllerOf(object) != nil || object.GetLabels()["endpoints.kubernetes.io/managed-by"] != "" || object.GetKind() == "Secret" && strings.HasPrefix(object.GetName(), recordPrefix) {
		return false
	}
	if object.GetNamespace() != "" {
		return true
	}
	return !slices.Contains(namespaces, object.GetName()) &&
		slices.ContainsFunc(namespaces, func(namespace string) bool { return strings.Contains(object.GetName(), namespace) })
}

// nameOf is the object's name for a person and for comparing.
func nameOf(object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	return object.GroupVersionKind().GroupKind().String() + " " + name
}

// look returns the world of a player after a step. The step's error is to be of a known class.
func look(t testing.TB, p player, extra []kindOf, failure error) world {
	t.Helper()
	namespace, journal := p.home()
	requests := journal.take()
	w := world{
		Error:   classOf(failure),
		Objects: map[string]any{},
		Records: recordsIn(t, namespace),
		Hooks:   hooksOf(requests),
		Created: kindsOf(requests, request.created),
		Deleted: kindsOf(requests, request.deleted),
	}
	for _, object := range liveObjects(t, extra, namespace, namespace+otherNamespace) {
		normalized := normalize(object)
		w.Objects[anonymous(nameOf(object), namespace)] = anonymize(normalized, namespace, string(object.GetUID()))
	}
	return w
}

// otherNamespace is what the name of a second namespace ends in, that a chart makes objects in.
const otherNamespace = "-other"

// anonymous replaces what differs between two players in a text.
func anonymous(text, namespace string) string {
	return strings.ReplaceAll(text, namespace, "NAMESPACE")
}

// anonymize replaces, in all texts and keys, what differs between two players.
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
