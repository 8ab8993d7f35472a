// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/fields"
)

// Foreign has the releases in which fields of other clients are drift, with the accepted
// fields.
type Foreign struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]*keptClean
}

// keptClean is a release in which fields of other clients are drift.
type keptClean struct {
	// ignore are the rules by which fields were accepted.
	ignore   []fields.IgnoreRule
	accepted map[types.UID]string
}

// Set says whether fields of other clients are drift in a release, except for ignored fields. A
// change of the rules drops the accepted fields.
func (f *Foreign) Set(release cache.ObjectName, enabled bool, ignore []fields.IgnoreRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !enabled {
		delete(f.releases, release)
		return
	}
	if f.releases == nil {
		f.releases = map[cache.ObjectName]*keptClean{}
	}
	if known := f.releases[release]; known == nil || !fields.SameRules(known.ignore, ignore) {
		f.releases[release] = &keptClean{ignore: ignore, accepted: map[types.UID]string{}}
	}
}

// Accept accepts the fields that other clients own in an object.
func (f *Foreign) Accept(release cache.ObjectName, uid types.UID, digest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.releases[release]; known != nil {
		known.accepted[uid] = digest
	}
}

// Has reports whether the object has fields of other clients that were not accepted.
func (f *Foreign) Has(release cache.ObjectName, got *Object) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.releases[release]
	return got.Foreign != "" && known != nil && known.accepted[got.UID] != got.Foreign
}
