// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// blocked remembers the owners that cannot have a child because another owner has an object of its name. They are
// queued when the object is gone. An owner is forgotten after conflictRetry, because its next pass adds it again. It is
// safe for concurrent use. The zero value is ready to use.
type blocked struct {
	mu     sync.Mutex
	owners map[blockedOwner]time.Time
}

type blockedOwner struct {
	child childKey
	owner cache.ObjectName
}

// add remembers an owner.
func (b *blocked) add(child childKey, owner cache.ObjectName, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners == nil {
		b.owners = map[blockedOwner]time.Time{}
	}
	maps.DeleteFunc(b.owners, func(_ blockedOwner, until time.Time) bool { return now.After(until) })
	b.owners[blockedOwner{child, owner}] = now.Add(conflictRetry)
}

// take returns the owners that wait for the name of a child, and forgets them.
func (b *blocked) take(child childKey) []cache.ObjectName {
	b.mu.Lock()
	defer b.mu.Unlock()
	var owners []cache.ObjectName
	for waiting := range b.owners {
		if waiting.child == child {
			owners = append(owners, waiting.owner)
			delete(b.owners, waiting)
		}
	}
	return owners
}
