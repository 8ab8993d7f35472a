// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// inputVersions remembers the version that each app's inputs have in the status.
//
// The digest of the inputs must not be in the status: it is made from Secrets, and a
// digest of a short secret can be guessed offline. The version is made from the UIDs and
// resource versions of the objects instead. An object that was written again with the
// same content keeps its version, as long as the process remembers it.
type inputVersions struct {
	mu   sync.Mutex
	last map[cache.ObjectName]inputVersion
}

type inputVersion struct{ digest, version string }

// of returns the version of the inputs with the digest, which is now unless the same
// inputs had another one before.
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
