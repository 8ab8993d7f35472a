// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"container/list"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bodyCache holds the compressed content of the most recently used release
// records, up to a number of bytes. An upgrade or a repair then need not read
// the record that an earlier operation wrote.
type bodyCache struct {
	limit int

	mu      sync.Mutex
	size    int
	recent  *list.List
	entries map[types.UID]*list.Element
}

type body struct {
	uid             types.UID
	resourceVersion string
	labels          map[string]string
	data            map[string][]byte
	size            int
}

func newBodyCache(limit int) *bodyCache {
	return &bodyCache{limit: limit, recent: list.New(), entries: map[types.UID]*list.Element{}}
}

// get returns the record's Secret, if that version of its content is held.
func (c *bodyCache) get(record *metav1.PartialObjectMetadata) *corev1.Secret {
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
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: record.Namespace, Name: record.Name, UID: record.UID,
			ResourceVersion: held.resourceVersion, Labels: held.labels,
		},
		Data: held.data,
	}
}

// put holds the Secret's content, in place of an older version of it.
func (c *bodyCache) put(secret *corev1.Secret) {
	held := &body{uid: secret.UID, resourceVersion: secret.ResourceVersion, labels: secret.Labels, data: secret.Data}
	for _, value := range secret.Data {
		held.size += len(value)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[held.uid]; ok {
		c.drop(element)
	}
	c.entries[held.uid] = c.recent.PushFront(held)
	c.size += held.size
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
}
