// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// inputVersions caches the version of each object's inputs that is in the status.
//
// The digest of the inputs must not be in the status: it is derived from Secrets, and a
// short secret can be guessed offline from its digest. The version is derived from UIDs
// and resource versions instead. If an object is written again with the same content, its
// version stays the same while the process runs.
type inputVersions struct {
	mu   sync.Mutex
	last map[cache.ObjectName]inputVersion
}

type inputVersion struct{ digest, version string }

// of returns the version of the inputs with the digest: the cached version if the digest
// is the same, now otherwise.
func (v *inputVersions) of(key cache.ObjectName, digest, now string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last, ok := v.last[key]; ok && last.digest == digest {
		return last.version
	}
	if v.last == nil {
		v.last = map[cache.ObjectName]inputVersion{}
	}
	v.last[key] = inputVersion{digest: digest, version: now}
	return now
}

func (v *inputVersions) forget(key cache.ObjectName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.last, key)
}
