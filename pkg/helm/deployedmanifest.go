// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"time"
)

// Manifest returns the manifest in the verified record of a revision. It sends a request
// only if the record is not cached, see the package documentation. The manifest may hold
// the values of Secrets. Manifest waits for an operation on the release to end. It uses the
// namespace, name, chart, timeout and service account of the release, and the revision
// digests of the baseline.
func (e *Engine) Manifest(ctx context.Context, release Release, baseline Baseline, revision int) (string, error) {
	defer e.locks.lock(release.Key())()
	within, err := e.boundsOf(release)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	deadline := time.Now().Add(e.limitsOf(release).timeout)
	if ends, ok := ctx.Deadline(); ok && ends.Before(deadline) {
		deadline = ends
	}
	store, err := e.newStore(ctx, release, baseline, within, deadline, e.loggerFor(ctx))
	if err != nil {
		return "", err
	}
	rls, err := store.verified(revision) //nolint:contextcheck // The store has the context.
	if err != nil {
		return "", fmt.Errorf("read the manifest of release %s: %w", release.Key(), err)
	}
	return rls.Manifest, nil
}
