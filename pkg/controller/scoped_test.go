// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestScoped(t *testing.T) {
	indexer := func(objects ...*corev1.Pod) cache.Indexer {
		byNode := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }
		i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"node": byNode})
		for _, p := range objects {
			if err := i.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		return i
	}
	on := func(namespace, name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node},
		}
	}
	all := Scoped[*corev1.Pod]{metav1.NamespaceAll: indexer(on("ns", "a", "n1"), on("ns", "b", "n1"), on("other", "a", "n2"))}
	some := Scoped[*corev1.Pod]{"ns": indexer(on("ns", "a", "n1"))}
	tests := []struct {
		name   string
		caches Scoped[*corev1.Pod]
		key    cache.ObjectName
		found  bool
		index  string
		onNode int
	}{
		{"all namespaces", all, keyA, true, "node", 2},
		{"all namespaces, no such object", all, cache.NewObjectName("ns", "c"), false, "node", 2},
		{"a watched namespace", some, keyA, true, "node", 1},
		{"an unwatched namespace", some, cache.NewObjectName("other", "a"), false, "node", 0},
		{"no such index", all, keyA, true, "zone", 0},
		{"no caches", nil, keyA, false, "node", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, found := test.caches.Get(test.key); found != test.found || found && got.Name != test.key.Name {
				t.Errorf("Get = %v, %t", got, found)
			}
			if got := test.caches.ByIndex(test.key.Namespace, test.index, "n1"); len(got) != test.onNode {
				t.Errorf("ByIndex found %d, want %d", len(got), test.onNode)
			}
		})
	}
}
