// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"maps"
	"sync"
	"time"
)

// brought remembers the objects that users brought in the place of children that are
// created once. No cache has them, because they lack the label of children. An object is
// looked up again after conflictRetry. It is safe for concurrent use. The zero value is
// ready to use.
type brought struct {
	mu      sync.Mutex
	objects map[childKey]broughtObject
}

type broughtObject struct {
	object *Observed
	until  time.Time
}

// get returns an object; nil if it has to be looked up.
func (b *brought) get(child childKey, now time.Time) *Observed {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.objects[child]; now.Before(known.until) {
		return known.object
	}
	return nil
}

// set remembers an object that was just looked up.
func (b *brought) set(child childKey, object *Observed, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		b.objects = map[childKey]broughtObject{}
	}
	maps.DeleteFunc(b.objects, func(_ childKey, known broughtObject) bool { return !now.Before(known.until) })
	b.objects[child] = broughtObject{object, now.Add(conflictRetry)}
}
