// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Memory keeps a value for each object while the process runs. Its user drops the values of
// deleted objects. Memory is safe for concurrent use. The zero value is ready to use.
type Memory[V any] struct {
	mu     sync.Mutex
	values map[cache.ObjectName]V
}

// Get returns the value of an object. ok is false for an unknown object.
func (m *Memory[V]) Get(key cache.ObjectName) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	return value, ok
}

// Set replaces the value of an object.
func (m *Memory[V]) Set(key cache.ObjectName, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[cache.ObjectName]V{}
	}
	m.values[key] = value
}

// Forget drops the value of an object.
func (m *Memory[V]) Forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
