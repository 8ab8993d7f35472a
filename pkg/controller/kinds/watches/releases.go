// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// releases are the releases that custom resources may have, as of their last passes. An index of
// the cache cannot have them, because a name may depend on the spec, which only passes decode.
// The zero value is ready to use.
type releases struct {
	mu    sync.Mutex
	named map[cache.ObjectName][]cache.ObjectName
	// owned are the custom resources of each release.
	owned map[cache.ObjectName][]cache.ObjectName
}

// set replaces the releases that a custom resource may have.
func (r *releases) set(key cache.ObjectName, namespace string, names []string) {
	releases := make([]cache.ObjectName, 0, len(names))
	for _, name := range names {
		if release := cache.NewObjectName(namespace, name); !slices.Contains(releases, release) {
			releases = append(releases, release)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.named[key], releases) {
		return
	}
	r.drop(key)
	if r.named == nil {
		r.named, r.owned = map[cache.ObjectName][]cache.ObjectName{}, map[cache.ObjectName][]cache.ObjectName{}
	}
	r.named[key] = releases
	for _, release := range releases {
		r.owned[release] = append(r.owned[release], key)
	}
}

// owners returns the custom resources that may have a release.
func (r *releases) owners(release cache.ObjectName) []cache.ObjectName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.owned[release])
}

// forget drops a custom resource.
func (r *releases) forget(key cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(key)
}

func (r *releases) drop(key cache.ObjectName) {
	for _, release := range r.named[key] {
		r.owned[release] = slices.DeleteFunc(r.owned[release], func(owner cache.ObjectName) bool { return owner == key })
		if len(r.owned[release]) == 0 {
			delete(r.owned, release)
		}
	}
	delete(r.named, key)
}
