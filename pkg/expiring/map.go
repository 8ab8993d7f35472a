// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"maps"
	"sync"
	"time"
)

// Map is a map whose entries expire. It is safe for concurrent use. The zero value is ready to
// use, and has no limit.
type Map[K comparable, V any] struct {
	// Limit is the maximum number of entries; 0 for no limit. Beyond the limit, the namespace
	// with the most entries loses the entry that expires first.
	Limit int
	// Namespace returns the namespace of a value. It is required if there is a limit.
	Namespace func(V) string

	mu      sync.Mutex
	entries map[K]entry[V]
	// sweep is when the expired entries are dropped next.
	sweep time.Time
}

type entry[V any] struct {
	value V
	until time.Time
}

// Get returns the value of a key. ok is false for an unknown or expired key.
func (m *Map[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.entries[key]; now.Before(found.until) {
		return found.value, true
	}
	return value, false
}

// Set sets the value of a key, which expires after ttl. It reports whether the key had a value
// that had not expired. Expired entries are dropped at most once per ttl.
func (m *Map[K, V]) Set(key K, value V, ttl time.Duration, now time.Time) (replaced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[K]entry[V]{}
	}
	replaced = now.Before(m.entries[key].until)
	m.entries[key] = entry[V]{value, now.Add(ttl)}
	isFull := m.Limit > 0 && len(m.entries) > m.Limit
	if isFull || now.After(m.sweep) {
		maps.DeleteFunc(m.entries, func(_ K, e entry[V]) bool { return !now.Before(e.until) })
		m.sweep = now.Add(ttl)
	}
	if isFull && len(m.entries) > m.Limit {
		m.evict()
	}
	return replaced
}

// evict drops the entry that expires first of the namespace with the most entries.
func (m *Map[K, V]) evict() {
	counts, largest := map[string]int{}, ""
	for _, e := range m.entries {
		namespace := m.Namespace(e.value)
		if counts[namespace]++; counts[namespace] > counts[largest] {
			largest = namespace
		}
	}
	var (
		first K
		until time.Time
	)
	for key, e := range m.entries {
		if m.Namespace(e.value) == largest && (until.IsZero() || e.until.Before(until)) {
			first, until = key, e.until
		}
	}
	delete(m.entries, first)
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// Take removes the keys that match, and returns them.
func (m *Map[K, V]) Take(matches func(K) bool) []K {
	m.mu.Lock()
	defer m.mu.Unlock()
	var taken []K
	for key := range m.entries {
		if matches(key) {
			taken = append(taken, key)
			delete(m.entries, key)
		}
	}
	return taken
}

// Len returns the number of entries. It counts expired entries that are not dropped yet.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
