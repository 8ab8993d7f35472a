// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Throttle holds statuses back that tell no more than how far a change has come. The
// next pass goes on from the status that was held. A process that ends loses them, and
// the next one observes the same state again. The zero value is ready to use.
type Throttle[T metav1.Object] struct {
	mu   sync.Mutex
	held map[cache.ObjectName]heldObject[T]
}

type heldObject[T metav1.Object] struct {
	since  time.Time
	object T
}

// Held returns the object with the status that an earlier pass held back.
func (t *Throttle[T]) Held(key cache.ObjectName, uid types.UID) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.held[key]
	return found.object, ok && found.object.GetUID() == uid
}

// Hold keeps the status of object back until d after the first status of the object that
// was. It returns how long that is from now; 0 when the time is over.
func (t *Throttle[T]) Hold(key cache.ObjectName, object T, d time.Duration, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := now
	if found, ok := t.held[key]; ok && found.object.GetUID() == object.GetUID() {
		since = found.since
	}
	left := d - now.Sub(since)
	if left <= 0 {
		return 0
	}
	if t.held == nil {
		t.held = map[cache.ObjectName]heldObject[T]{}
	}
	t.held[key] = heldObject[T]{since: since, object: object}
	return left
}

// Forget drops what is held of an object.
func (t *Throttle[T]) Forget(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, key)
}

// KeepTransitionTimes gives the conditions of next that have the same status as in
// written the transition time that they have there: a condition that changed and came
// back between two writes has not changed for readers.
func KeepTransitionTimes(written, next []metav1.Condition) {
	for i := range next {
		if was := meta.FindStatusCondition(written, next[i].Type); was != nil && was.Status == next[i].Status {
			next[i].LastTransitionTime = was.LastTransitionTime
		}
	}
}
