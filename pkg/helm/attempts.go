// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// attempts knows, for each release, what was sent since its last success. An
// object's fingerprint tells who owns which field, and not what an attempt that
// failed has put there; but what was never sent is as the last success left it,
// so that a rollback can leave it out.
type attempts struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*attempt
	// mayExist are the releases of which a record was sent that nobody has said to be
	// there. The watch tells in the end, but an uninstall may come before.
	mayExist sets.Set[cache.ObjectName]
}

type attempt struct {
	// revision is that of the last success.
	revision int
	objects  sets.Set[ObjectReference]
}

// succeeded notes that the objects of the release are those of the revision.
func (a *attempts) succeeded(release cache.ObjectName, revision int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.releases == nil {
		a.releases = map[cache.ObjectName]*attempt{}
	}
	a.releases[release] = &attempt{revision: revision}
	a.mayExist.Delete(release)
}

// send notes an object that is about to be applied.
func (a *attempts) send(release cache.ObjectName, object ObjectReference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok := a.releases[release]; ok {
		if since.objects == nil {
			since.objects = sets.New[ObjectReference]()
		}
		since.objects.Insert(object)
	}
}

// since returns the revision of the last success; 0 when this process knows of
// none.
func (a *attempts) since(release cache.ObjectName) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since, ok := a.releases[release]; ok {
		return since.revision
	}
	return 0
}

// sent reports whether the object was sent since.
func (a *attempts) sent(release cache.ObjectName, object ObjectReference) bool {
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

// mayHaveRecord reports whether the release may have a record that is not known.
func (a *attempts) mayHaveRecord(release cache.ObjectName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mayExist.Has(release)
}

// forget lets go of what is known of the release.
func (a *attempts) forget(release cache.ObjectName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.releases, release)
	a.mayExist.Delete(release)
}
