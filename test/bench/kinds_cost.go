// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// settleTime is longer than the operator holds back the status of children that are not ready.
const settleTime = 3 * time.Second

// kindCost is what a phase costs the operator.
type kindCost struct {
	// took is the time of the phase; over is the time that cpu and the requests are about, until the operator was at rest.
	took, over, cpu time.Duration
	sent            sent
}

// sent are the operator's requests without lists and watches. The events are not among the requests.
type sent struct {
	requests, statuses, events int
}

// countSent counts requests of the audit log.
func countSent(requests []cluster.AuditEvent) sent {
	var s sent
	for _, r := range requests {
		switch {
		case r.Resource == "events":
			s.events++
		case r.Subresource == "status":
			s.requests++
			s.statuses++
		default:
			s.requests++
		}
	}
	return s
}

// byOperator selects the operator's requests without lists and watches.
func byOperator(event cluster.AuditEvent) bool {
	isOperator := cluster.ByServiceAccount(operatorNamespace, operatorAccount)
	return isOperator(event) && event.Verb != "list" && event.Verb != "watch"
}

// settle returns when the operator is at rest.
func (b *kindsBench) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	return b.cluster.AwaitAuditQuiet(ctx, settleTime, byOperator)
}

// observe runs a phase and returns what it costs until the operator is at rest again.
func (b *kindsBench) observe(ctx context.Context, phase func() error) (cost kindCost, err error) {
	cpu, err := b.process.cpu()
	if err != nil {
		return cost, err
	}
	began := time.Now()
	if err := phase(); err != nil {
		return cost, err
	}
	cost.took = time.Since(began)
	if err := b.settle(ctx); err != nil {
		return cost, err
	}
	cost.over = time.Since(began)
	after, err := b.process.cpu()
	if err != nil {
		return cost, err
	}
	cost.cpu = after - cpu
	requests, err := b.cluster.AuditRequests(began, byOperator)
	cost.sent = countSent(requests)
	return cost, err
}
