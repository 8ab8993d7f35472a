// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Throttle delays the writes of statuses that report only progress. The next pass
// continues from the held status. Held statuses are lost when the process ends; the next
// process observes the same state again. The zero value is ready to use.
type Throttle[T metav1.Object] struct {
	objects controller.Memory[throttled[T]]
}

// throttled is the state of one object.
type throttled[T metav1.Object] struct {
	uid types.UID
	// since is when its first status was held, and object has the last one; zero while
	// none is held.
	since  time.Time
	object T
	// wrote is when its status was written last; zero when that does not matter.
	wrote time.Time
}

// Held returns the object with the held status of an earlier pass.
func (t *Throttle[T]) Held(key cache.ObjectName, uid types.UID) (T, bool) {
	found, _ := t.objects.Get(key)
	return found.object, found.uid == uid && !found.since.IsZero()
}

// Hold keeps the status of object back until d after the first status that was kept back, and until
// interval after the last written status. It returns how long that is from now; 0 when the status
// is to be written.
func (t *Throttle[T]) Hold(key cache.ObjectName, object T, d, interval time.Duration, now time.Time) time.Duration {
	found, _ := t.objects.Get(key)
	if found.uid != object.GetUID() {
		found = throttled[T]{uid: object.GetUID()}
	}
	since := found.since
	if since.IsZero() {
		since = now
	}
	left := d - now.Sub(since)
	if !found.wrote.IsZero() {
		left = max(left, interval-now.Sub(found.wrote))
	}
	if left <= 0 {
		return 0
	}
	found.since, found.object = since, object
	t.objects.Set(key, found)
	return left
}

// Wrote records a status write of an object, and drops its held status. With an interval, the next
// write is delayed from now.
func (t *Throttle[T]) Wrote(key cache.ObjectName, object T, interval time.Duration, now time.Time) {
	if interval <= 0 {
		t.objects.Forget(key)
		return
	}
	t.objects.Set(key, throttled[T]{uid: object.GetUID(), wrote: now})
}

// Forget drops the state of an object.
func (t *Throttle[T]) Forget(key cache.ObjectName) { t.objects.Forget(key) }

// KeepTransitionTimes copies the transition times from written to the conditions in next
// that have the same status. If a condition changes and changes back between two writes,
// clients see no change.
func KeepTransitionTimes(written, next []metav1.Condition) {
	for i := range next {
		if was := meta.FindStatusCondition(written, next[i].Type); was != nil && was.Status == next[i].Status {
			next[i].LastTransitionTime = was.LastTransitionTime
		}
	}
}
