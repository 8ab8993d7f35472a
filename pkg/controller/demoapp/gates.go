// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"slices"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
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

// holdIfBlocked keeps a change back that something is in the way of. The way back to
// what ran before waits for no other app: it brings nothing new.
func (p *pass) holdIfBlocked() {
	if p.plan.Wanted.Action == helm.ActionRollback {
		p.blockers = slices.DeleteFunc(p.blockers, func(b blocker) bool {
			return b.reason == v1alpha1.ReasonWaiting || b.reason == v1alpha1.ReasonDependencyCycle
		})
	}
	if len(p.blockers) > 0 {
		p.plan.Hold()
	}
}
