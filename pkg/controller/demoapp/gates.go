// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
)

// gate looks at what the plan is about to change, says what it finds in a
// condition of its own, and holds the change by adding a blocker. A gate that is
// not used removes its condition.
type gate func(ctx context.Context, p *pass)

// passGates asks all gates, although one of them would do to hold the change:
// whoever looks at the app is to see everything that is in the way.
func (c *Controller) passGates(ctx context.Context, p *pass) {
	for _, pass := range c.gates {
		pass(ctx, p)
	}
	p.holdIfBlocked()
}

// holdIfBlocked keeps a change back that something is in the way of.
func (p *pass) holdIfBlocked() {
	if len(p.blockers) > 0 {
		p.plan.Hold()
	}
}
