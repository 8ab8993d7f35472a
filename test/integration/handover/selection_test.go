// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/shardcache"
	"github.com/example/demoapp-controller/test/cluster"
)

// wire records the answers of the API server about ConfigMaps.
type wire struct {
	next http.RoundTripper
	// ignoresSelectors removes the selector from requests. An API server without the feature
	// ShardedListAndWatch does not read it.
	ignoresSelectors bool

	mu      sync.Mutex
	answers []*answer
}

// answer is the part of an answer that a client has read.
type answer struct {
	*wire
	io.ReadCloser

	isWatch bool
	content bytes.Buffer
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if w.ignoresSelectors && query.Has("shardSelector") {
		request = request.Clone(request.Context())
		query.Del("shardSelector")
		request.URL.RawQuery = query.Encode()
	}
	response, err := w.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/configmaps") {
		return response, err
	}
	read := &answer{wire: w, ReadCloser: response.Body, isWatch: query.Has("watch")}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, read)
	response.Body = read
	return response, nil
}

// Read implements io.Reader.
func (a *answer) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.content.Write(into[:n])
	return n, err
}

// received returns the number of objects in all answers, by namespace, and the selectors that the
// lists were made with.
func (w *wire) received(t *testing.T) (objects map[string]int, selectors []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	objects = map[string]int{}
	for _, a := range w.answers {
		decoder := json.NewDecoder(bytes.NewReader(a.content.Bytes()))
		if a.isWatch {
			for {
				var event struct {
					Type   string
					Object metav1.PartialObjectMetadata
				}
				if err := decoder.Decode(&event); err != nil {
					break // The client has read this far.
				}
				if event.Type != "BOOKMARK" {
					objects[event.Object.Namespace]++
				}
			}
			continue
		}
		var list metav1.PartialObjectMetadataList
		if err := decoder.Decode(&list); err != nil {
			t.Fatal(err)
		}
		selector := ""
		if list.ShardInfo != nil {
			selector = list.ShardInfo.Selector
		}
		selectors = append(selectors, selector)
		for _, item := range list.Items {
			objects[item.Namespace]++
		}
	}
	return objects, selectors
}

// TestSelectionOverTheWire counts the objects that an informer of one of two shards receives. An
// API server that selects objects sends only these. Without the feature, the informer drops the
// rest.
func TestSelectionOverTheWire(t *testing.T) {
	const count, label = 20, "selection"
	namespaces := map[int]string{}
	for i := 0; len(namespaces) < 2; i++ {
		name := fmt.Sprint("selection-", i)
		if shard := shardcache.Of(name, 2); namespaces[shard] == "" {
			namespaces[shard] = shared.CreateNamespace(t, metav1.ObjectMeta{Name: name})
		}
	}
	own, other := namespaces[0], namespaces[1]
	for _, namespace := range namespaces {
		for i := range count {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", i), Labels: map[string]string{label: ""}}}
			if _, err := shared.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, ignoresSelectors := range map[string]bool{"API server selects objects": false, "API server ignores selectors": true} {
		t.Run(name, func(t *testing.T) {
			received := &wire{ignoresSelectors: ignoresSelectors}
			selection, store := runInformer(t, received, label)
			expect := func(when string, cached, ownObjects, otherObjects int) {
				t.Helper()
				objects, selectors := received.received(t)
				t.Logf("%s: received %v, lists with selectors %q", when, objects, selectors)
				if got := len(store.ListKeys()); got != cached {
					t.Errorf("%s: %d objects are cached, want %d", when, got, cached)
				}
				for _, selector := range selectors {
					if (selector == "") != ignoresSelectors {
						t.Errorf("%s: the API server made a list with the selector %q", when, selector)
					}
				}
				if ignoresSelectors {
					return // The number of lists decides how often it sends each object.
				}
				if objects[own] != ownObjects || objects[other] != otherObjects {
					t.Errorf("%s: received %v, want %d objects of %s and %d of %s", when, objects, ownObjects, own, otherObjects, other)
				}
			}
			if err := selection.Add(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			expect("one shard", count, count, 0)

			change(t, other)
			newest := change(t, own)
			cluster.Eventually(t.Context(), t, "change in the cache", func(context.Context) (bool, error) {
				object, exists, err := store.GetByKey(own + "/object-0")
				return exists && object.(*corev1.ConfigMap).ResourceVersion == newest, err
			})
			expect("after a change in each shard", count, count+1, 0)
			if objects, _ := received.received(t); ignoresSelectors && objects[other] <= count {
				t.Errorf("received %v, want the change in the other shard, too", objects)
			}

			if err := selection.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			expect("both shards", 2*count, count+1, count)
		})
	}
}

// runInformer runs an informer of the ConfigMaps with the label until the end of the test.
func runInformer(t *testing.T, requests *wire, label string) (*shardcache.Selection, cache.Store) {
	t.Helper()
	config := shared.AdminConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		requests.next = next
		return requests
	})
	config.ContentConfig = rest.ContentConfig{ContentType: "application/json"}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	selection := shardcache.NewSelection(2)
	informer := shardcache.NewInformer(selection, client.CoreV1().ConfigMaps(""), client, &corev1.ConfigMap{},
		func(options *metav1.ListOptions) { options.LabelSelector = label }, cache.SharedIndexInformerOptions{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	cluster.Eventually(t.Context(), t, "synced informer", func(context.Context) (bool, error) { return informer.HasSynced(), nil })
	return selection, informer.GetStore()
}

// change changes an object of a namespace, and returns its resourceVersion.
func change(t *testing.T, namespace string) string {
	t.Helper()
	client := shared.Client.CoreV1().ConfigMaps(namespace)
	object, err := client.Get(t.Context(), "object-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Data = map[string]string{"change": object.ResourceVersion}
	if object, err = client.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return object.ResourceVersion
}
