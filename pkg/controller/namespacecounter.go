// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// namespaceCounter is a counter by controller and namespace, for namespaces with a problem. A
// namespace without an event for correctionMemory loses its series when another namespace has one.
type namespaceCounter struct {
	vec *prometheus.CounterVec

	mu   sync.Mutex
	last map[string]map[string]time.Time
}

func newNamespaceCounter(vec *prometheus.CounterVec) *namespaceCounter {
	return &namespaceCounter{vec: vec, last: map[string]map[string]time.Time{}}
}

// inc counts an event. If maxNamespaces namespaces of the controller have series, the events of
// further namespaces are not counted.
func (c *namespaceCounter) inc(controller, namespace string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[controller] == nil {
		c.last[controller] = map[string]time.Time{}
	}
	last := c.last[controller]
	for other, at := range last {
		if other != namespace && now.Sub(at) > correctionMemory {
			delete(last, other)
			c.vec.DeleteLabelValues(controller, other)
		}
	}
	if _, counted := last[namespace]; !counted && len(last) >= maxNamespaces {
		return
	}
	last[namespace] = now
	c.vec.WithLabelValues(controller, namespace).Inc()
}
