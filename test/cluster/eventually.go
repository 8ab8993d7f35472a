// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"time"
)

// DefaultTimeout bounds Eventually where the context has no earlier deadline. It is generous, for busy machines: a
// condition that holds is seen at once. The slowest wait is that for a namespace to go: the cluster
// deletes and lists all kinds in it, one after another, at least twice.
const DefaultTimeout = 4 * time.Minute

// pollInterval is how often a condition is looked at.
const pollInterval = 25 * time.Millisecond

// Eventually waits until done returns true, and fails the test when that does not happen in time. An error of done does
// not end the waiting; the last one is shown.
func Eventually(ctx context.Context, t testing.TB, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	begin := time.Now()
	last, err := poll(ctx, done)
	if err != nil {
		t.Fatalf("not in %s: %s (last error: %v)", time.Since(begin).Round(time.Millisecond), what, last)
	}
}

// poll calls done until it returns true. It fails with the cause of the end of ctx, and always returns the last error of
// done that was not brought about by the end of ctx.
func poll(ctx context.Context, done func(context.Context) (bool, error)) (last, err error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return nil, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
