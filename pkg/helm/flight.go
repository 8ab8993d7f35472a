// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// news is a change of an object of a release, or of its records, that a watch
// told of.
type news struct {
	release         cache.ObjectName
	change          Change
	uid             types.UID
	resourceVersion string
	gone            bool
}

func newsOf(release cache.ObjectName, change Change, object metav1.Object, gone bool) news {
	return news{release: release, change: change, uid: object.GetUID(), resourceVersion: object.GetResourceVersion(), gone: gone}
}

// flights are the operations in flight. The event of an own write may arrive
// before the API server's answer to it, so that only the end of the operation
// can tell which news were its own. Taken for somebody else's, they would wake
// the caller at once after every failure.
type flights struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*flight
}

type flight struct {
	held    []news
	wrote   map[types.UID]string
	deleted map[types.UID]bool
}

// begin marks the start of an operation. The release's lock is held.
func (f *flights) begin(release cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.releases == nil {
		f.releases = map[cache.ObjectName]*flight{}
	}
	f.releases[release] = &flight{wrote: map[types.UID]string{}, deleted: map[types.UID]bool{}}
}

// hold keeps the news back while an operation on their release is in flight. It
// reports whether it did.
func (f *flights) hold(n news) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	operation, ok := f.releases[n.release]
	if ok {
		operation.held = append(operation.held, n)
	}
	return ok
}

// noteWrite notes a version of an object that the operation wrote.
func (f *flights) noteWrite(release cache.ObjectName, object metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if operation, ok := f.releases[release]; ok {
		operation.wrote[object.GetUID()] = object.GetResourceVersion()
	}
}

// noteDelete notes an object that the operation deleted.
func (f *flights) noteDelete(release cache.ObjectName, object metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if operation, ok := f.releases[release]; ok {
		operation.deleted[object.GetUID()] = true
	}
}

// end marks the end of an operation, and returns the news that it did not make
// itself.
func (f *flights) end(release cache.ObjectName) []news {
	f.mu.Lock()
	defer f.mu.Unlock()
	operation := f.releases[release]
	delete(f.releases, release)
	var others []news
	for _, n := range operation.held {
		if !operation.made(n) {
			others = append(others, n)
		}
	}
	return others
}

// made reports whether the news are of an own write, or of a version that an
// own write came after.
func (f *flight) made(n news) bool {
	if f.deleted[n.uid] {
		return true
	}
	written, ok := f.wrote[n.uid]
	return ok && !n.gone && atLeast(written, n.resourceVersion)
}
