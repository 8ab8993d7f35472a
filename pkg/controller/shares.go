// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "sync"

const (
	// reserveShare divides the workers: one namespace leaves this part of them free, so that an
	// object of another namespace finds a worker at once.
	reserveShare = 5
	// flightsPerWorker limits the passes in flight of all namespaces, in multiples of the workers.
	// Slow passes have no worker, see slowPass.
	flightsPerWorker = 4
)

// shares bounds the passes of a lane that a namespace may start by the passes that it has in
// flight. A slow pass counts until it ends, and a pass that waits in [ReleaseWorker] does not
// count. Cluster-scoped objects count as one namespace.
type shares struct {
	// most is the limit of one namespace, and total limits all of them. A namespace without a pass
	// in flight may always start one.
	most, total int

	mu sync.Mutex
	// started are the passes in flight by namespace, and all is their sum.
	started map[string]int
	all     int
}

func newShares(workers int) *shares {
	return &shares{most: workers - workers/reserveShare, total: workers * flightsPerWorker, started: map[string]int{}}
}

// mayStart reports whether a namespace may start a pass. A namespace gets at most as many passes as
// it leaves to other namespaces, so that later namespaces also find free passes.
func (s *shares) mayStart(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[namespace] < max(1, min(s.most, s.total-s.all))
}

// start counts a pass.
func (s *shares) start(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[namespace]++
	s.all++
}

// end is the opposite of start. The caller then lets a worker look for a key.
func (s *shares) end(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.started[namespace]--; s.started[namespace] == 0 {
		delete(s.started, namespace)
	}
}
