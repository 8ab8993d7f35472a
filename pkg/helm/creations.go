// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// creations has the UIDs of the objects that this process created for the owner of a
// release and that no baseline has yet.
//
// Without it, a release whose first record is deleted during the install could not be
// installed again: nothing else proves that the objects are its own. The UIDs are lost
// with the process.
type creations struct {
	mu       sync.Mutex
	releases map[cache.ObjectName]created
}

type created struct {
	owner types.UID
	uids  map[types.UID]bool
}

// note records an object that was created for an owner.
func (c *creations) note(release cache.ObjectName, owner, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.releases[release]
	if found.uids == nil || found.owner != owner {
		found = created{owner: owner, uids: map[types.UID]bool{}}
	}
	found.uids[uid] = true
	if c.releases == nil {
		c.releases = map[cache.ObjectName]created{}
	}
	c.releases[release] = found
}

// has reports whether an object was created for an owner.
func (c *creations) has(release cache.ObjectName, owner, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.releases[release]
	return found.owner == owner && found.uids[uid]
}

// forget drops the UIDs of a release: its baseline has them, or the release is gone.
func (c *creations) forget(release cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.releases, release)
}
