// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// kindDelays are the times after a change of a CRD or an API service at which the engine reports the
// change. Discovery shows it about a second later, or later under load.
var kindDelays = []time.Duration{2 * time.Second, 8 * time.Second}

// kindChanges has the releases that want to know when the API server serves other kinds.
type kindChanges struct {
	// noticed has an item after a change.
	noticed chan struct{}

	mu       sync.Mutex
	releases sets.Set[cache.ObjectName]
}

func newKindChanges() *kindChanges {
	return &kindChanges{noticed: make(chan struct{}, 1), releases: sets.New[cache.ObjectName]()}
}

// notice is called after a change.
func (k *kindChanges) notice() {
	select {
	case k.noticed <- struct{}{}:
	default:
	}
}

func (k *kindChanges) add(release cache.ObjectName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releases.Insert(release)
}

func (k *kindChanges) forget(release cache.ObjectName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releases.Delete(release)
}

func (k *kindChanges) list() []cache.ObjectName {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.releases.UnsortedList()
}

// Capabilities identifies the kinds and the version of the API server, as templates see them. It is
// empty if they are unknown now. From now on, subscribers are called for the release when they may
// have changed, until an operation on the release succeeds or the release is forgotten.
func (e *Engine) Capabilities(release cache.ObjectName) string {
	e.kindChanges.add(release)
	digest, err := e.mapper.currentDigest()
	if err != nil {
		e.logger.Debug("The capabilities of the API server are unknown", slog.Any("err", err))
		return ""
	}
	return digest
}

// reportKinds reports changes of the kinds that the API server serves, until ctx ends.
func (e *Engine) reportKinds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kindChanges.noticed:
		}
		for _, delay := range kindDelays {
			select {
			case <-ctx.Done():
				return
			case <-time.After(delay):
			}
			releases := e.kindChanges.list()
			if len(releases) == 0 {
				break
			}
			e.mapper.Expire()
			for _, release := range releases {
				e.report(release, ObjectChanged)
			}
		}
	}
}
