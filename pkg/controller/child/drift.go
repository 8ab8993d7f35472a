// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"time"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/expiring"
)

// driftMemory is the time after which drift is dropped that no pass observes, because the owner was
// deleted.
const driftMemory = 3 * maxPause

// drifts counts the children that have drifted. A child counts once until it matches the desired
// state again. drifts is safe for concurrent use. The zero value is ready to use.
type drifts struct {
	count   controller.DriftCount
	repeats controller.DriftRepeats[childKey]

	// seen are the children whose drift has been counted.
	seen expiring.Map[childKey, struct{}]
}

// observe records whether a child has drifted.
func (d *drifts) observe(child childKey, drifted bool, now time.Time) {
	if !drifted {
		d.seen.Delete(child)
	} else if known := d.seen.Set(child, struct{}{}, driftMemory, now); !known {
		d.count.Detected(1)
	}
}

// corrected records that a drifted child was restored.
func (d *drifts) corrected(child childKey, now time.Time) {
	d.observe(child, true, now) // The cache may have missed the drift.
	d.repeats.Corrected(d.count, child.namespace, child, now)
	d.observe(child, false, now)
}
