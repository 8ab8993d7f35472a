// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Drifted has the objects that had drifted at the last observation of their release. Every
// change of such an object by another client is reported, because a change that restores the object
// does not change its fingerprint.
type Drifted struct {
	mu      sync.Mutex
	drifted map[cache.ObjectName][]types.UID
}

// Note replaces the drifted objects of a release.
func (d *Drifted) Note(release cache.ObjectName, drifted []types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(drifted) == 0 {
		delete(d.drifted, release)
		return
	}
	if d.drifted == nil {
		d.drifted = map[cache.ObjectName][]types.UID{}
	}
	d.drifted[release] = drifted
}

func (d *Drifted) has(release cache.ObjectName, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.drifted[release], uid)
}
