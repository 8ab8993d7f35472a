// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// DefaultTimeout bounds Eventually if the context has no earlier deadline. The timeout is generous
// because machines may be busy; a condition that holds is noticed soon. The slowest wait is for the
// deletion of a namespace, in which the cluster lists and deletes all kinds one after another, at
// least twice.
const DefaultTimeout = 4 * time.Minute

// ConflictBackoff is for changes of objects whose status the operator writes. The defaults of
// client-go give up after four or five conflicts, which a busy machine exceeds.
var ConflictBackoff = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 12}

// The interval between two evaluations of a condition is a tenth of the time waited, within these
// limits: many tests wait at the same time, and most conditions cost the API server requests.
const (
	minPollInterval = 25 * time.Millisecond
	maxPollInterval = 250 * time.Millisecond
)

// Eventually waits until done returns true, and fails the test on a timeout. An error of done does
// not end the wait; the failure shows the last one.
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

// poll calls done until done returns true. On the end of ctx, poll returns the cause. It also
// returns the last error of done that the end of ctx did not cause.
func poll(ctx context.Context, done func(context.Context) (bool, error)) (last, err error) {
	begin := time.Now()
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
		case <-time.After(min(max(minPollInterval, time.Since(begin)/10), maxPollInterval)):
		}
	}
}
