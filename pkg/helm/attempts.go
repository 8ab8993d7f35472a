// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// attempts has, for each release, the objects that were sent since the last success. An object's
// fingerprint shows the managers of its fields, but not the values that a failed attempt has set.
// An object that was not sent is unchanged since the last success, so a rollback can skip it.
type attempts struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*attempt
	// mayExist are the releases with a record whose create request got no answer. The watch shows
	// the record later, but an uninstall may come first.
	mayExist sets.Set[cache.ObjectName]
}

type attempt struct {
	// revision is the revision of the last success.
	revision int
	objects  sets.Set[Identity]
}

// succeeded records that the objects of the release match the revision.
func (a *attempts) succeeded(release cache.ObjectName, revision int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.releases == nil {
		a.releases = map[cache.ObjectName]*attempt{}
	}
	a.releases[release] = &attempt{revision: revision}
	a.mayExist.Delete(release)
}

// send notes an object before it is applied.
func (a *attempts) send(release cache.ObjectName, object Identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok := a.releases[release]; ok {
		if since.objects == nil {
			since.objects = sets.New[Identity]()
		}
		since.objects.Insert(object)
	}
}

// since returns the revision of the last success. It is 0 if this process has had no success.
func (a *attempts) since(release cache.ObjectName) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok := a.releases[release]; ok {
		return since.revision
	}
	return 0
}

// sent reports whether the object was sent since the last success.
func (a *attempts) sent(release cache.ObjectName, object Identity) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, ok := a.releases[release]
	return !ok || since.objects.Has(object)
}

// unanswered notes that a record of the release may have been created.
func (a *attempts) unanswered(release cache.ObjectName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mayExist == nil {
		a.mayExist = sets.New[cache.ObjectName]()
	}
	a.mayExist.Insert(release)
}

// mayHaveRecord reports whether the release may have a record that the index does not show.
func (a *attempts) mayHaveRecord(release cache.ObjectName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mayExist.Has(release)
}

// forget drops the state of the release.
func (a *attempts) forget(release cache.ObjectName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.releases, release)
	a.mayExist.Delete(release)
}
