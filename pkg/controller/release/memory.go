// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// memory keeps a value for each object while the process runs. The zero value is ready to
// use.
type memory[V any] struct {
	mu     sync.Mutex
	values map[cache.ObjectName]V
}

func (m *memory[V]) get(key cache.ObjectName) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[key]
	return value, ok
}

func (m *memory[V]) set(key cache.ObjectName, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[cache.ObjectName]V{}
	}
	m.values[key] = value
}

func (m *memory[V]) forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
