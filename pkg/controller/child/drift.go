// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"maps"
	"sync"
	"time"

	"github.com/example/demoapp-controller/pkg/controller"
)

// driftMemory is how long drift that no pass sees any more is remembered: the owner is gone.
const driftMemory = 3 * maxPause

// drifts counts the children that have drifted, each once until it is as desired again. It
// is safe for concurrent use. The zero value is ready to use.
type drifts struct {
	count   controller.DriftCount
	repeats controller.DriftRepeats[childKey]

	mu sync.Mutex
	// seen is when a drifted child was last seen.
	seen map[childKey]time.Time
	// sweep is when drift that no pass sees any more is dropped next.
	sweep time.Time
}

// observe records whether a child has drifted.
func (d *drifts) observe(child childKey, drifted bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !drifted {
		delete(d.seen, child)
		return
	}
	if now.After(d.sweep) {
		maps.DeleteFunc(d.seen, func(_ childKey, last time.Time) bool { return now.Sub(last) > driftMemory })
		d.sweep = now.Add(driftMemory)
	}
	if _, known := d.seen[child]; !known {
		d.count.Detected(1)
	}
	if d.seen == nil {
		d.seen = map[childKey]time.Time{}
	}
	d.seen[child] = now
}

// corrected records that a drifted child was restored.
func (d *drifts) corrected(child childKey, now time.Time) {
	d.observe(child, true, now) // The cache may have missed the drift.
	d.repeats.Corrected(d.count, child.namespace, child, now)
	d.observe(child, false, now)
}
