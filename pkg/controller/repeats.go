// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/example/demoapp-controller/pkg/expiring"
)

// repeatWindow is the time after a correction in which another one of the object counts as
// repeated. It exceeds the longest pause between corrections of a child.
const repeatWindow = 15 * time.Minute

// DriftRepeats counts repeated corrections: corrections of an object that was corrected less than
// 15 minutes ago. K identifies an object. The memory is bounded, because it holds only objects of
// the last 15 to 30 minutes. DriftRepeats is safe for concurrent use. The zero value is ready to
// use.
type DriftRepeats[K comparable] struct {
	recent expiring.Map[K, struct{}]
}

// Corrected records the correction of an object of a namespace in count.
func (r *DriftRepeats[K]) Corrected(count DriftCount, namespace string, object K, now time.Time) {
	count.restored()
	if r.recent.Set(object, struct{}{}, repeatWindow, now) {
		count.repeat(namespace, now)
	}
}

// namespaceCounter is a counter by controller and namespace, for namespaces with a problem. A
// namespace without an event for repeatWindow loses its series when another namespace has one.
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
		if other != namespace && now.Sub(at) > repeatWindow {
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
