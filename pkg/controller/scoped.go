// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Scoped holds the caches of one kind by namespace. If all namespaces are watched,
// it holds one cache under metav1.NamespaceAll. The objects are shared: do not
// change them.
type Scoped[T any] map[string]cache.Indexer

// Get returns the cached object named by key.
func (s Scoped[T]) Get(key cache.ObjectName) (T, bool) {
	var none T
	indexer := s.of(key.Namespace)
	if indexer == nil {
		return none, false
	}
	found, exists, err := indexer.GetByKey(key.String())
	if err != nil || !exists {
		return none, false
	}
	object, ok := found.(T)
	return object, ok
}

// ByIndex returns the cached objects of a namespace that have value in the index.
// It returns nothing if the caches do not have the index.
func (s Scoped[T]) ByIndex(namespace, index, value string) []T {
	indexer := s.of(namespace)
	if indexer == nil {
		return nil
	}
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil
	}
	objects := make([]T, 0, len(found))
	for _, item := range found {
		if object, ok := item.(T); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func (s Scoped[T]) of(namespace string) cache.Indexer {
	if all, ok := s[metav1.NamespaceAll]; ok {
		return all
	}
	return s[namespace]
}
