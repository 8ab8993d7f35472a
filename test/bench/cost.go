// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// phaseCost is what a phase costs the operator.
type phaseCost struct {
	took, cpu time.Duration
	requests  float64
}

// restartOnce restarts the operator and waits until it has reconciled a number of custom resources.
func (b *bench) restartOnce(ctx context.Context, binary string, owners int) (cost phaseCost, err error) {
	if err := b.stopOperator(); err != nil {
		return cost, err
	}
	started := time.Now()
	if err := b.startOperator(ctx, binary); err != nil {
		return cost, err
	}
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		reconciles, err := b.process.sum(ctx, "controller_reconcile_total")
		if err != nil {
			return false, err
		}
		waiting, err := b.process.sum(ctx, "workqueue_depth")
		return err == nil && int(reconciles) >= owners && waiting == 0, err
	})
	if err != nil {
		return cost, err
	}
	cost.took = time.Since(started)
	if cost.requests, err = b.requests(ctx); err != nil {
		return cost, err
	}
	cost.cpu, err = b.process.cpu()
	return cost, err
}

// settledHeap waits until watches have delivered all events, and returns the size of the live objects.
func (b *bench) settledHeap(ctx context.Context) (int64, error) {
	const delivery = 5 * time.Second
	if err := wait(ctx, delivery); err != nil {
		return 0, err
	}
	return b.process.heap(ctx)
}

// wait waits for a time.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
