// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/overlay"
)

// notice is an event of a release: a change of one of its objects or records.
type notice struct {
	release         cache.ObjectName
	change          Change
	uid             types.UID
	resourceVersion string
	gone            bool
}

func noticeOf(release cache.ObjectName, change Change, object metav1.Object, gone bool) notice {
	return notice{release: release, change: change, uid: object.GetUID(), resourceVersion: object.GetResourceVersion(), gone: gone}
}

// flights are the operations in flight. The watch event of a write may arrive before the API
// server's answer. Only at the end of the operation it is known which notices are echoes of its
// writes. If an echo were published earlier, it would requeue the release at once after every
// failure.
type flights struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*flight
}

type flight struct {
	// held has the newest notice of each object and kind of change. Older notices are redundant.
	held    []notice
	wrote   map[types.UID]string
	deleted map[types.UID]bool
}

// begin marks the start of an operation. The caller holds the release's lock.
func (f *flights) begin(release cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.releases == nil {
		f.releases = map[cache.ObjectName]*flight{}
	}
	f.releases[release] = &flight{wrote: map[types.UID]string{}, deleted: map[types.UID]bool{}}
}

// hold keeps the notice if an operation on its release is in flight. It reports whether
// it did.
func (f *flights) hold(n notice) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	operation, ok := f.releases[n.release]
	if ok {
		operation.held = append(slices.DeleteFunc(operation.held, n.follows), n)
	}
	return ok
}

// follows reports whether the other notice is about the same object and kind of change.
func (n notice) follows(other notice) bool { return n.uid == other.uid && n.change == other.change }

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

// end marks the end of an operation. It returns the notices that are not echoes of the
// operation's own writes.
func (f *flights) end(release cache.ObjectName) []notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	operation := f.releases[release]
	delete(f.releases, release)
	return slices.DeleteFunc(operation.held, operation.isEcho)
}

// isEcho reports whether the notice is about a version that the operation wrote, or
// about an older one.
func (f *flight) isEcho(n notice) bool {
	if f.deleted[n.uid] {
		return true
	}
	written, ok := f.wrote[n.uid]
	return ok && !n.gone && overlay.AtLeast(written, n.resourceVersion)
}
