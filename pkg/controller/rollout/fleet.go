// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// DefaultLimits bound the rollout of a kind that sets no limits.
var DefaultLimits = Limits{Active: 10, Failed: 3}

// haltNotice is the delay before waiting objects are reconciled after the rollout was
// halted or resumed. A failure that the first retry corrects is over by then, which saves
// thousands of status writes.
const haltNotice = 5 * time.Second

// Reasons are the reasons of UpgradeHeld that [Fleet.Held] returns.
var Reasons = []string{apimeta.ReasonRolloutQueued, apimeta.ReasonRolloutHalted}

// ObjectQueue is the part of the queue of a kind that a fleet uses.
type ObjectQueue interface {
	Enqueue(key cache.ObjectName, why controller.Reason)
	EnqueueAfter(key cache.ObjectName, d time.Duration, why controller.Reason)
	Shards() *controller.Shards
}

// Member is a cached object of a fleet.
type Member struct {
	Key      cache.ObjectName
	Deleting bool
	// Recall returns the standing that an earlier process left. It returns false if the standing
	// could not be read.
	Recall func(ctx context.Context) (Standing, bool)
	// Failed reports, by the status alone, whether the change failed for an object that another
	// process handles.
	Failed func() bool
}

// Fleet is a [Queue] for the objects of one kind. It restores the standings that earlier processes
// left, and counts the failures of the shards that other processes hold.
type Fleet struct {
	*Queue

	// plural names the objects in messages.
	plural string
	limits Limits
	queue  ObjectQueue
	// get returns one cached object, and all returns all cached objects.
	get func(cache.ObjectName) (Member, bool)
	all func() []Member

	mu sync.Mutex
	// recalled is the number of shards that the process had taken at the last recall.
	recalled int
}

// NewFleet returns the fleet of the objects that get and all return. plural names the objects. For a
// limit of 0, [DefaultLimits] applies. A negative limit means no limit.
func NewFleet(queue ObjectQueue, plural string, limits Limits, get func(cache.ObjectName) (Member, bool), all func() []Member) *Fleet {
	limits = Limits{
		Active: max(cmp.Or(limits.Active, DefaultLimits.Active), 0), Failed: max(cmp.Or(limits.Failed, DefaultLimits.Failed), 0),
	}
	return &Fleet{
		plural: plural, limits: limits, queue: queue, get: get, all: all,
		Queue: NewQueue(limits,
			func(key cache.ObjectName) { queue.Enqueue(key, controller.DependencyReady) },
			func(key cache.ObjectName) {
				queue.EnqueueAfter(key, controller.Jitter(haltNotice), controller.DependencyReady)
			}),
	}
}

// Held returns the reason and message of UpgradeHeld for an object that waits after this answer. what
// names the change.
func (f *Fleet) Held(key cache.ObjectName, what string, answer Answer) (reason, message string) {
	of := fmt.Sprintf("%s of at least %d namespaces", f.plural, f.limits.Failed)
	switch {
	case answer != Halted && answer != HaltedNamespace:
		return apimeta.ReasonRolloutQueued, fmt.Sprintf(
			"%s waits for its turn: it is rolled out to %d %s at a time", what, f.limits.Active, f.plural)
	case answer == HaltedNamespace && key.Namespace == "":
		of = fmt.Sprintf("at least %d %s", f.limits.Failed, f.plural)
	case answer == HaltedNamespace:
		of = fmt.Sprintf("at least %d %s of this namespace", f.limits.Failed, f.plural)
	}
	return apimeta.ReasonRolloutHalted, fmt.Sprintf("%s is rolled out no further, since %s have failed "+
		"with it; it goes on when they recover, change or are deleted, and %s upgrades this one now", what, of, apimeta.AnnotationForceAt)
}

// MayHalt reports whether failures halt the rollout.
func (f *Fleet) MayHalt() bool { return f.limits.Failed > 0 }

// Prepare is called before a question. It restores the standings of the shards that the process has
// taken, and limits the active objects to the share of the process.
func (f *Fleet) Prepare(ctx context.Context) {
	f.recall(ctx)
	f.SetActive(f.queue.Shards().Share(f.limits.Active))
}

// recall restores the standings once for the shards that the process has taken. Each object that
// counts is reconciled soon, because the cache may be stale.
func (f *Fleet) recall(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	opened := f.queue.Shards().Opened()
	if opened == f.recalled {
		return
	}
	for _, object := range f.all() {
		if object.Deleting || !f.queue.Shards().Holds(object.Key.Namespace) {
			continue
		}
		if standing, known := object.Recall(ctx); known && f.Recall(object.Key, standing) {
			f.queue.Enqueue(object.Key, controller.HealthChange)
		}
	}
	f.recalled = opened
}

// Forget drops an object. An object whose shard the process has given back counts as one of another
// process.
func (f *Fleet) Forget(key cache.ObjectName) {
	f.Set(key, Settled)
	if object, ok := f.get(key); ok {
		f.Follow(object)
	}
}

// Follow counts a failed object whose shard another process holds, so that failures halt the rollout
// in all processes. It does nothing for an object whose shard this process holds.
func (f *Fleet) Follow(object Member) {
	shards := f.queue.Shards()
	if shards.Holds(object.Key.Namespace) {
		return
	}
	standing := Settled
	if !object.Deleting && object.Failed() {
		standing = FailedElsewhere
	}
	f.Set(object.Key, standing)
	if _, ok := f.get(object.Key); !ok {
		f.Set(object.Key, Settled) // Its deletion may have been handled before.
	}
	if shards.Holds(object.Key.Namespace) {
		f.queue.Enqueue(object.Key, controller.HealthChange) // The process has taken the shard meanwhile.
	}
}

// Gone drops an object whose shard another process holds, and that was deleted.
func (f *Fleet) Gone(key cache.ObjectName) {
	if !f.queue.Shards().Holds(key.Namespace) {
		f.Set(key, Settled)
	}
}
