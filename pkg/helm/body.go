// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"container/list"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bodyOverhead is about what it takes to hold a record besides its content, in bytes.
const bodyOverhead = 256

// bodyCache holds the compressed content of the most recently used release
// records, up to a number of bytes. An upgrade or a repair then need not read
// the record that an earlier operation wrote. A chart counts once, however many
// records share it.
type bodyCache struct {
	codec *recordCodec
	limit int

	mu      sync.Mutex
	size    int
	recent  *list.List
	entries map[types.UID]*list.Element
	// parts counts the records that share a chart.
	parts map[*chartPart]int
}

type body struct {
	uid             types.UID
	resourceVersion string
	content         *recordContent
	// size is what it takes besides the chart, in bytes.
	size int
}

func newBodyCache(limit int) *bodyCache {
	return &bodyCache{
		codec: newRecordCodec(), limit: limit, recent: list.New(), entries: map[types.UID]*list.Element{},
		parts: map[*chartPart]int{},
	}
}

// get returns the record's content, if that version of it is held.
func (c *bodyCache) get(record *metav1.PartialObjectMetadata) *recordContent {
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

// put holds the content of a version of a record, in place of that of an older
// one.
func (c *bodyCache) put(record metav1.Object, content *recordContent) {
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
	if part := content.part; part != nil {
		if c.parts[part]++; c.parts[part] == 1 {
			c.size += part.size()
		}
	}
	for c.size > c.limit {
		c.drop(c.recent.Back())
	}
}

// remove forgets a record.
func (c *bodyCache) remove(record *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[record.UID]; ok {
		c.drop(element)
	}
}

func (c *bodyCache) drop(element *list.Element) {
	dropped := c.recent.Remove(element).(*body)
	delete(c.entries, dropped.uid)
	c.size -= dropped.size
	if part := dropped.content.part; part != nil {
		if c.parts[part]--; c.parts[part] == 0 {
			delete(c.parts, part)
			c.size -= part.size()
		}
	}
}
