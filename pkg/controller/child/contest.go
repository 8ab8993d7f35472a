// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"time"

	"github.com/example/demoapp-controller/pkg/expiring"
)

const (
	// freeCorrections is the number of consecutive corrections without a pause.
	freeCorrections = 5
	// firstPause is the pause before the next correction. The pause doubles with each
	// further correction, up to maxPause.
	firstPause, maxPause = time.Second, 5 * time.Minute
	// minQuiet is the minimum time without a correction after which a child is restored at once
	// again. If twice the pause is longer, twice the pause counts.
	minQuiet = time.Minute
)

// childKey identifies a child of any owner.
type childKey struct {
	namespace string
	id
}

// corrections is the backoff of corrections. Without it, two clients that set different values of
// one field would write in a tight loop. corrections is safe for concurrent use. The zero value is
// ready to use.
type corrections struct {
	runs expiring.Map[childKey, correctionRun]
}

// correctionRun is a series of corrections of one child at short intervals.
type correctionRun struct {
	count int
	last  time.Time
}

// pause is the time between the last correction and the next one.
func (r correctionRun) pause() time.Duration {
	if r.count < freeCorrections {
		return 0
	}
	pause := firstPause
	for range r.count - freeCorrections {
		if pause *= 2; pause >= maxPause {
			return maxPause
		}
	}
	return pause
}

// wait is the time until the next correction; 0 or less if it is due.
func (r correctionRun) wait(now time.Time) time.Duration { return r.last.Add(r.pause()).Sub(now) }

// end is the end of the run if no further correction follows.
func (r correctionRun) end() time.Time { return r.last.Add(max(minQuiet, 2*r.pause())) }

// note counts a correction.
func (c *corrections) note(child childKey, now time.Time) {
	run := correctionRun{count: c.run(child, now).count + 1, last: now}
	c.runs.Set(child, run, run.end().Sub(now), now)
}

// run returns the current run of corrections of a child.
func (c *corrections) run(child childKey, now time.Time) correctionRun {
	run, _ := c.runs.Get(child, now)
	return run
}
