// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"container/list"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bodyOverhead estimates the memory of a cached record without its content, in bytes.
const bodyOverhead = 256

// Cache has the compressed content of the most recently used release records, up to a
// number of bytes. So an upgrade or a repair need not read the record that an earlier
// operation wrote. A chart counts once, even if several records share it.
type Cache struct {
	// Codec encodes the records that the cache holds.
	Codec *Codec
	limit int

	mu      sync.Mutex
	size    int
	recent  *list.List
	entries map[types.UID]*list.Element
	// parts counts the records that share a chart.
	parts map[*Part]int
}

type body struct {
	uid             types.UID
	resourceVersion string
	content         *Content
	// size is the memory without the chart, in bytes.
	size int
}

// NewCache returns an empty cache for at most limit bytes.
func NewCache(limit int) *Cache {
	return &Cache{
		Codec: newCodec(), limit: limit, recent: list.New(), entries: map[types.UID]*list.Element{},
		parts: map[*Part]int{},
	}
}

// Get returns the content of this version of the record; nil when it is not cached.
func (c *Cache) Get(record *metav1.PartialObjectMetadata) *Content {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[record.UID]
	if !ok {
		return nil
	}
	held := element.Value.(*body)
	if held.resourceVersion != record.ResourceVersion {
		return nil
	}
	c.recent.MoveToFront(element)
	return held.content
}

// Put caches the content of a version of a record. It replaces an older version.
func (c *Cache) Put(record metav1.Object, content *Content) {
	held := &body{
		uid: record.GetUID(), resourceVersion: record.GetResourceVersion(), content: content, size: bodyOverhead + len(content.rest),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[held.uid]; ok {
		c.drop(element)
	}
	c.entries[held.uid] = c.recent.PushFront(held)
	c.size += held.size
	if part := content.Part; part != nil {
		if c.parts[part]++; c.parts[part] == 1 {
			c.size += part.size()
		}
	}
	for c.size > c.limit {
		c.drop(c.recent.Back())
	}
}

// Remove drops a record.
func (c *Cache) Remove(record *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[record.UID]; ok {
		c.drop(element)
	}
}

func (c *Cache) drop(element *list.Element) {
	dropped := c.recent.Remove(element).(*body)
	delete(c.entries, dropped.uid)
	c.size -= dropped.size
	if part := dropped.content.Part; part != nil {
		if c.parts[part]--; c.parts[part] == 0 {
			delete(c.parts, part)
			c.size -= part.size()
		}
	}
}
