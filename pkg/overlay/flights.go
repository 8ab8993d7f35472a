// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Notice is a watch event of an object: what to report, and to which owner.
type Notice[Change comparable] struct {
	Owner  cache.ObjectName
	Change Change

	version
	gone bool
	// isOwn reports whether this process wrote the version.
	isOwn func() bool
}

// NoticeOf returns the notice of a change to an object of the view. gone reports whether the object
// is gone from the store.
func NoticeOf[Change comparable, T metav1.Object](view *View[T], owner cache.ObjectName, change Change, object metav1.Object, gone bool) Notice[Change] {
	return Notice[Change]{
		Owner: owner, Change: change, version: versionOf(object), gone: gone,
		isOwn: func() bool { return !gone && view.IsOwn(object) },
	}
}

// Flights hold back the notices of owners whose objects are being written. The watch event of a
// write may arrive before the API server's answer. Only the end of all writes shows which notices
// are echoes. Reported earlier, an echo would queue the owner again after each failure. The zero
// value is ready to use.
type Flights[Change comparable] struct {
	mu     sync.Mutex
	owners map[cache.ObjectName]*flight[Change]
}

type flight[Change comparable] struct {
	// held has the newest notice of each object and kind of change. Older notices add nothing.
	held    []Notice[Change]
	wrote   map[types.UID]string
	deleted map[types.UID]bool
}

// Begin holds back the notices of an owner until End. An owner has one flight at a time.
func (f *Flights[Change]) Begin(owner cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owners == nil {
		f.owners = map[cache.ObjectName]*flight[Change]{}
	}
	f.owners[owner] = &flight[Change]{wrote: map[types.UID]string{}, deleted: map[types.UID]bool{}}
}

// Hold keeps a notice if its owner is in flight. It drops the echo of a flight that ended while the
// event was handled. It reports whether it did either.
func (f *Flights[Change]) Hold(n Notice[Change]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	flight, ok := f.owners[n.Owner]
	if !ok {
		return n.isOwn()
	}
	flight.held = append(slices.DeleteFunc(flight.held, n.follows), n)
	return true
}

// follows reports whether the other notice is about the same object and kind of change.
func (n Notice[Change]) follows(other Notice[Change]) bool {
	return n.uid == other.uid && n.Change == other.Change
}

// Wrote records the API server's answer to a write. It has no effect outside of a flight.
func (f *Flights[Change]) Wrote(owner cache.ObjectName, object metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flight, ok := f.owners[owner]; ok {
		flight.wrote[object.GetUID()] = object.GetResourceVersion()
	}
}

// Deleted records that an object was deleted. It has no effect outside of a flight.
func (f *Flights[Change]) Deleted(owner cache.ObjectName, object metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flight, ok := f.owners[owner]; ok {
		flight.deleted[object.GetUID()] = true
	}
}

// End ends a flight. It returns the held notices that are not echoes of its writes.
func (f *Flights[Change]) End(owner cache.ObjectName) []Notice[Change] {
	f.mu.Lock()
	defer f.mu.Unlock()
	flight := f.owners[owner]
	delete(f.owners, owner)
	return slices.DeleteFunc(flight.held, flight.isEcho)
}

// isEcho reports whether the notice is about a version that the flight wrote, or an older one.
func (f *flight[Change]) isEcho(n Notice[Change]) bool {
	if f.deleted[n.uid] {
		return true
	}
	written, ok := f.wrote[n.uid]
	return ok && !n.gone && AtLeast(written, n.resourceVersion)
}
