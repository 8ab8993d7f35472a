// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/example/demoapp-controller/pkg/served"
)

// newCRDs returns a client of an API server without CRDs. Unlike the fake of client-go, its watches
// honor field selectors.
func newCRDs() *dynamicfake.FakeDynamicClient {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{served.Definitions: "CustomResourceDefinitionList"})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watched, ok := action.(clienttesting.WatchAction)
		if !ok {
			return false, nil, nil
		}
		all, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, selectEvents(all, watched.GetWatchRestrictions().Fields), nil
	})
	return client
}

// selectEvents returns a watch of the objects that match the selector.
func selectEvents(all watch.Interface, selector fields.Selector) watch.Interface {
	events := make(chan watch.Event, watch.DefaultChanSize)
	selected := watch.NewProxyWatcher(events)
	go func() {
		defer all.Stop()
		for {
			select {
			case event := <-all.ResultChan():
				crd, ok := event.Object.(*unstructured.Unstructured)
				if ok && selector.Matches(fields.Set{metav1.ObjectNameField: crd.GetName()}) {
					events <- event
				}
			case <-selected.StopChan():
				return
			}
		}
	}()
	return selected
}

// refuseCRDs makes the API server refuse to list and watch CRDs.
func refuseCRDs(client *dynamicfake.FakeDynamicClient) {
	refused := apierrors.NewForbidden(served.Definitions.GroupResource(), "", errors.New("RBAC"))
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refused
	})
}

// newCRD returns an established CRD that serves the resource.
func newCRD(resource schema.GroupVersionResource) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": definitionName(resource)},
		"spec":     map[string]any{"versions": []any{map[string]any{"name": resource.Version, "served": true}}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
}

// applyCRD creates the established CRD of a resource.
func applyCRD(ctx context.Context, t *testing.T, client dynamic.Interface, resource schema.GroupVersionResource) {
	t.Helper()
	_, err := client.Resource(served.Definitions).Create(ctx, newCRD(resource), metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// TestMissingCRDCostsNoRequests counts the requests of kinds that wait for their CRDs while ten
// minutes pass.
func TestMissingCRDCostsNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		from := map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour}
		api := &growing{start: time.Now(), served: from}
		crds := newCRDs()
		queue, _ := newTestQueue(nil)
		queue.ask = api.questions()
		queue.crds = newDefinitions(crds)
		if _, err := queue.preflight(ctx); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- queue.run(ctx, func(Kind) error { return nil }) }()
		elapse(10 * time.Second)
		synctest.Wait()
		begun, rounds := len(crds.Actions()), api.rounds

		elapse(10 * time.Minute)
		synctest.Wait()

		if begun != 4 {
			t.Errorf("%d requests for CRDs, want a list and a watch of each: %v", begun, crds.Actions())
		}
		if more := len(crds.Actions()) - begun; more != 0 {
			t.Errorf("%d more requests for CRDs", more)
		}
		if more := api.rounds - rounds; more != 0 {
			t.Errorf("%d more discoveries", more)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run() = %v", err)
		}
	})
}

// TestWatchesOfCRDsEnd: the watch of a CRD ends when its kind runs, or when the process stops.
func TestWatchesOfCRDsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		crds := newDefinitions(newCRDs())
		crds.follow(ctx, []schema.GroupVersionResource{apps, clusters})
		synctest.Wait()
		watches := []*definition{crds.watches[apps], crds.watches[clusters]}
		awaited := crds.awaits(apps) && crds.awaits(clusters)

		crds.follow(ctx, []schema.GroupVersionResource{clusters})

		if !awaited || crds.awaits(apps) || !crds.awaits(clusters) || watches[1].ctx.Err() != nil {
			t.Errorf("awaits: both %v, afterwards %v and %v", awaited, crds.awaits(apps), crds.awaits(clusters))
		}
		crds.follow(ctx, nil)
		for _, watch := range watches {
			if !watch.informer.IsStopped() {
				t.Error("an informer runs")
			}
		}
	})
}
