// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// demandTimeout bounds the wait for an informer to be filled. Whoever waited in
// vain tries again later.
const demandTimeout = 10 * time.Second

// OnDemand is an informer that sends nothing until somebody needs it: a feature
// that nobody uses then costs no request and no memory. Once needed, it stays.
type OnDemand struct {
	informer cache.SharedIndexInformer
	once     sync.Once
	needed   chan struct{}
}

// NewOnDemand wraps an informer that nobody else starts.
func NewOnDemand(informer cache.SharedIndexInformer) *OnDemand {
	return &OnDemand{informer: informer, needed: make(chan struct{})}
}

// Informer is the informer itself, to add handlers and indexers to and to read
// from.
func (d *OnDemand) Informer() cache.SharedIndexInformer { return d.informer }

// Run waits until the informer is needed, and then runs it until ctx ends.
func (d *OnDemand) Run(ctx context.Context) {
	select {
	case <-d.needed:
		d.informer.RunWithContext(ctx)
	case <-ctx.Done():
	}
}

// Need starts the informer unless it runs, and returns when it holds what there
// is. The error wraps [ErrNotSynced] when that takes more than ten seconds, or
// longer than ctx lasts.
func (d *OnDemand) Need(ctx context.Context) error {
	d.once.Do(func() { close(d.needed) })
	if d.informer.HasSynced() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, demandTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), d.informer.HasSynced) {
		return fmt.Errorf("informer that was just started: %w", ErrNotSynced)
	}
	return nil
}
