// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// owners are the objects of releases, as of their last passes. An index of the cache cannot have
// them, because the name of a release may depend on the spec, which only passes may decode. An object
// owns the release of its own name without an entry here. The zero value is ready to use.
type owners struct {
	mu sync.Mutex
	// named are the releases of each object, and owned the objects of each release.
	named, owned map[cache.ObjectName][]cache.ObjectName
}

// set replaces the releases that an object may have.
func (o *owners) set(key cache.ObjectName, releases []cache.ObjectName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replace(key, releases)
}

// add adds a release to the releases of an object.
func (o *owners) add(key, release cache.ObjectName) {
	if release == key {
		return // It needs no entry.
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replace(key, append(slices.Clone(o.named[key]), release))
}

func (o *owners) replace(key cache.ObjectName, releases []cache.ObjectName) {
	var named []cache.ObjectName
	for _, release := range releases {
		if release != key && !slices.Contains(named, release) {
			named = append(named, release)
		}
	}
	if slices.Equal(o.named[key], named) {
		return
	}
	o.drop(key)
	if o.named == nil {
		o.named, o.owned = map[cache.ObjectName][]cache.ObjectName{}, map[cache.ObjectName][]cache.ObjectName{}
	}
	o.named[key] = named
	for _, release := range named {
		o.owned[release] = append(o.owned[release], key)
	}
}

// of returns the keys of the objects that may have a release. The object of its name may not exist.
func (o *owners) of(release cache.ObjectName) []cache.ObjectName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]cache.ObjectName{release}, o.owned[release]...)
}

// forget drops an object.
func (o *owners) forget(key cache.ObjectName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(key)
}

func (o *owners) drop(key cache.ObjectName) {
	for _, release := range o.named[key] {
		o.owned[release] = slices.DeleteFunc(o.owned[release], func(owner cache.ObjectName) bool { return owner == key })
		if len(o.owned[release]) == 0 {
			delete(o.owned, release)
		}
	}
	delete(o.named, key)
}
