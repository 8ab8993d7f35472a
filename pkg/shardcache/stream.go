// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shardcache

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// settlePoll is the interval at which a stream looks whether the store has an event.
const settlePoll = 2 * time.Millisecond

// listBackoff is the time between failed lists of added shards: from one second to half a minute.
var listBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}

// stream is a watch of the selected shards that goes on when the selection changes. While the
// objects of added shards cannot be listed, it goes on with the earlier shards. If the change of
// the watch fails, the stream ends with the error Expired, and the reflector lists all selected
// objects again.
type stream struct {
	*source

	options metav1.ListOptions
	events  chan watch.Event
	ctx     context.Context
	stop    context.CancelFunc

	// requested is the watch of the API server.
	requested watch.Interface
	// position is the resourceVersion up to which the stream knows all events.
	position string
	// sent is the resourceVersion of the last event that the reflector has got.
	sent string
}

func newStream(ctx context.Context, s *source, options metav1.ListOptions, requested watch.Interface) *stream {
	w := &stream{
		source: s, options: options, events: make(chan watch.Event), requested: requested,
		position: options.ResourceVersion, sent: options.ResourceVersion,
	}
	w.ctx, w.stop = context.WithCancel(ctx)
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *stream) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface. It waits for the end of the stream.
func (w *stream) Stop() {
	w.stop()
	for range w.events {
	}
}

// run forwards events until the stream is stopped, or ends like a watch.
func (w *stream) run() {
	defer close(w.events)
	defer w.stop()
	defer func() { w.requested.Stop() }()
	if !w.settle() || !w.arrive() {
		return
	}
	// While again is set, the objects that the shards failed adds could not be listed.
	var again <-chan time.Time
	var failed shardSet
	delay := listBackoff
	for {
		shards, changed := w.selection.next()
		if !maps.Equal(shards, w.shards) && (again == nil || !maps.Equal(shards, failed)) {
			listed, err := w.listAll(w.ctx, shards.minus(w.shards))
			switch {
			case w.ctx.Err() != nil:
				return
			case err == nil:
				err = w.change(shards, listed)
				again, delay = nil, listBackoff
			case !apierrors.IsNotFound(err):
				klog.FromContext(w.ctx).Error(err, "Could not list the objects of added shards", "type", w.name)
				again, failed = time.After(delay.Step()), shards
				continue
			}
			if err != nil {
				w.send(watch.Event{Type: watch.Error, Object: expired(err)})
				return
			}
			continue
		}
		if len(w.awaited) == 0 {
			w.selection.reached(w.source, w.shards)
		}
		select {
		case <-w.ctx.Done():
			return
		case <-changed:
		case <-again:
			again = nil
		case event, ok := <-w.requested.ResultChan():
			if !ok || !w.forward(event) {
				return
			}
		}
	}
}

func expired(err error) *metav1.Status {
	status := apierrors.NewResourceExpired("the selection of shards has changed: " + err.Error()).Status()
	return &status
}

// forward sends an event to the reflector, unless it is about an object of another shard. It
// returns false if the stream ends.
func (w *stream) forward(event watch.Event) bool {
	object, err := meta.Accessor(event.Object)
	if event.Type == watch.Error || err != nil {
		w.send(event)
		return false
	}
	w.position = object.GetResourceVersion()
	if event.Type == watch.Bookmark || w.selection.isSelected(object.GetNamespace(), w.shards) {
		if !w.send(event) {
			return false
		}
		w.sent = w.position
	} else {
		w.selection.logFilter(w.ctx, byClient)
	}
	return len(w.awaited) == 0 || w.arrive()
}

// arrive removes the shards whose listed objects the watch has shown by now. If none is left, it
// waits for the store. It returns false if the stream ends.
func (w *stream) arrive() bool {
	maps.DeleteFunc(w.awaited, func(_ int, version string) bool { return isAtLeast(w.position, version) })
	return len(w.awaited) > 0 || w.settle()
}

// change changes the shards of the stream. listed are the objects of the added ones. A shard that
// was removed and added again is both.
func (w *stream) change(shards shardSet, listed []runtime.Object) error {
	isAdded, removed := len(shards.minus(w.shards)) > 0, w.shards.minus(shards)
	w.requested.Stop()
	options := w.options
	options.ResourceVersion = w.position
	requested, err := w.watch(w.ctx, options, shards)
	if err != nil {
		return err
	}
	w.requested, w.shards = requested, shards
	if len(removed) > 0 {
		err = w.drop(removed)
	}
	if err == nil && isAdded {
		err = w.add(listed)
	}
	return err
}

// drop reports the objects of the shards as deleted. The events have no more of an object than its
// name and UID, so no handler finds an owner.
func (w *stream) drop(shards shardSet) error {
	maps.DeleteFunc(w.awaited, func(shard int, _ string) bool { return shards.has(shard) })
	if !w.settle() {
		return w.ctx.Err()
	}
	var last metav1.Object
	for _, stored := range w.store.List() {
		object, err := meta.Accessor(stored)
		if err != nil {
			return fmt.Errorf("cached object: %w", err)
		}
		if !w.selection.isSelected(object.GetNamespace(), shards) {
			continue
		}
		if err := w.sendOwn(watch.Deleted, func(o metav1.Object) {
			o.SetNamespace(object.GetNamespace())
			o.SetName(object.GetName())
			o.SetUID(object.GetUID())
		}); err != nil {
			return err
		}
		last = object
	}
	// All these events have one resourceVersion, so settle does not distinguish them.
	if last != nil && !w.until(func() bool { return !w.has(last) }) {
		return w.ctx.Err()
	}
	return nil
}

// add reports the listed objects of added shards. An object that has changed after the position of
// the stream is left to the watch. At the end, the store is back at the position.
func (w *stream) add(listed []runtime.Object) error {
	var last metav1.Object
	for _, item := range listed {
		object, err := meta.Accessor(item)
		if err != nil {
			return fmt.Errorf("listed object: %w", err)
		}
		if version := object.GetResourceVersion(); !isAtLeast(w.position, version) {
			shard := Of(object.GetNamespace(), w.selection.count)
			if newest, ok := w.awaited[shard]; !ok || !isAtLeast(newest, version) {
				w.awaited[shard] = version
			}
			continue
		}
		if !w.send(watch.Event{Type: watch.Added, Object: item}) {
			return w.ctx.Err()
		}
		last = object
	}
	if last != nil && !w.until(func() bool { return w.has(last) }) {
		return w.ctx.Err()
	}
	return w.sendOwn(watch.Bookmark, func(metav1.Object) {})
}

// sendOwn sends an event that does not come from the API server, at the position of the stream.
func (w *stream) sendOwn(kind watch.EventType, set func(metav1.Object)) error {
	example := w.example.DeepCopyObject()
	object, err := meta.Accessor(example)
	if err != nil {
		return fmt.Errorf("object of %s: %w", w.name, err)
	}
	set(object)
	object.SetResourceVersion(w.position)
	if !w.send(watch.Event{Type: kind, Object: example}) {
		return w.ctx.Err()
	}
	w.sent = w.position
	if !w.settle() {
		return w.ctx.Err()
	}
	return nil
}

// send returns false if the stream has been stopped.
func (w *stream) send(event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// settle waits until the store has all events that were sent. It returns false if the stream has
// been stopped.
func (w *stream) settle() bool {
	return w.until(func() bool {
		version := w.store.LastStoreSyncResourceVersion()
		// The version is empty if a feature gate of client-go is off.
		return version == w.sent || version == ""
	})
}

// has reports whether the store has this version of an object. It is called before any later event
// is sent.
func (w *stream) has(object metav1.Object) bool {
	stored, exists, err := w.store.GetByKey(cache.MetaObjectToName(object).String())
	if err != nil || !exists {
		return false
	}
	accessor, err := meta.Accessor(stored)
	return err == nil && accessor.GetResourceVersion() == object.GetResourceVersion()
}

// until polls, because a store does not announce its changes before its handlers run.
func (w *stream) until(done func() bool) bool {
	if done() {
		return true
	}
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if done() {
				return true
			}
		case <-w.ctx.Done():
			return false
		}
	}
}

// isAtLeast reports whether the resourceVersion got is not older than want. It returns true for
// versions that cannot be compared.
func isAtLeast(got, want string) bool {
	order, err := resourceversion.CompareResourceVersion(got, want)
	return err != nil || order >= 0
}
