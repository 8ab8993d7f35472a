// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// demandTimeout is how long the first list of an informer may take before its callers get errNoAnswer.
const demandTimeout = 10 * time.Second

// errNoAnswer is the failure of a list that takes longer than that.
var errNoAnswer = fmt.Errorf("the API server has not answered within %v", demandTimeout)

// UnfilledError is the error of an informer that has not delivered its first list. It wraps [ErrNotSynced] and, if the
// list failed, the failure.
type UnfilledError struct {
	// Failure is why the list failed; nil while the list is in flight.
	Failure error
}

// Error implements error.
func (e *UnfilledError) Error() string {
	if e.Failure != nil {
		return e.Failure.Error()
	}
	return "informer that was just started: " + ErrNotSynced.Error()
}

// Unwrap returns ErrNotSynced and, if there is one, the failure.
func (e *UnfilledError) Unwrap() []error {
	if e.Failure != nil {
		return []error{ErrNotSynced, e.Failure}
	}
	return []error{ErrNotSynced}
}

func (e *UnfilledError) pending() bool { return e.Failure == nil }

// IsPending reports whether each branch of err is an [*UnfilledError] without a failure.
func IsPending(err error) bool {
	return every(err, func(link error) bool {
		unfilled, ok := link.(interface{ pending() bool })
		return ok && unfilled.pending()
	})
}

// OnDemand is an informer that starts when it is first needed, so that an unused feature costs neither requests nor
// memory. It then runs until the context of Run ends.
type OnDemand struct {
	informer cache.SharedIndexInformer
	once     sync.Once
	needed   chan struct{}

	mu sync.Mutex
	// failure is why the first list failed; nil while nothing has failed.
	failure error
	// asking are the keys that called Need before the informer was filled.
	asking map[cache.ObjectName]*asker
}

// asker is the queue of a waiting key. told is true once the key has got the failure.
type asker struct {
	queue Enqueuer
	told  bool
}

// NewOnDemand wraps an informer. The caller neither starts the informer nor sets its watch error handler.
func NewOnDemand(informer cache.SharedIndexInformer) (*OnDemand, error) {
	d := &OnDemand{informer: informer, needed: make(chan struct{}), asking: map[cache.ObjectName]*asker{}}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		d.failed(err)
	})
	if err != nil {
		return nil, fmt.Errorf("informer on demand: %w", err)
	}
	return d, nil
}

// Informer is the informer itself, to add handlers and indexers to and to read
// from.
func (d *OnDemand) Informer() cache.SharedIndexInformer { return d.informer }

// Run waits until the informer is needed, and then runs it until ctx ends.
func (d *OnDemand) Run(ctx context.Context) {
	select {
	case <-d.needed:
	case <-ctx.Done():
		return
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { d.informer.RunWithContext(ctx) })
	soon, cancel := context.WithTimeout(ctx, demandTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(soon.Done(), d.informer.HasSynced) && ctx.Err() == nil {
		d.silent()
	}
	if cache.WaitForCacheSync(ctx.Done(), d.informer.HasSynced) {
		d.filled()
	}
}

// Need starts the informer unless it runs, and returns nil once the informer has delivered its first list. Until then
// it returns an [*UnfilledError] at once, and enqueues the key with reason [DependencyReady] when the list arrives or
// fails for the first time. Later failures are returned by later calls.
func (d *OnDemand) Need(key cache.ObjectName, queue Enqueuer) error {
	d.once.Do(func() { close(d.needed) })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.informer.HasSynced() {
		return nil
	}
	d.asking[key] = &asker{queue: queue, told: d.failure != nil}
	return &UnfilledError{Failure: d.failure}
}

// filled enqueues all keys that wait.
func (d *OnDemand) filled() {
	d.mu.Lock()
	asking := d.asking
	d.asking, d.failure = map[cache.ObjectName]*asker{}, nil
	d.mu.Unlock()
	for key, asker := range asking {
		asker.queue.Enqueue(key, DependencyReady)
	}
}

// failed records why the first list failed, and enqueues the keys that have not got a failure yet. An informer that was
// filled keeps its objects, and the reflector starts the watch again.
func (d *OnDemand) failed(err error) {
	if d.informer.HasSynced() {
		return
	}
	var answer *apierrors.StatusError
	if errors.As(err, &answer) {
		err = answer // Without the text that client-go adds.
	}
	d.mu.Lock()
	d.failure = err
	woken := map[cache.ObjectName]Enqueuer{}
	for key, asker := range d.asking {
		if !asker.told {
			asker.told = true
			woken[key] = asker.queue
		}
	}
	d.mu.Unlock()
	for key, queue := range woken {
		queue.Enqueue(key, DependencyReady)
	}
}

// silent records that the API server did not answer in time.
func (d *OnDemand) silent() {
	d.mu.Lock()
	failure := d.failure
	d.mu.Unlock()
	if failure == nil {
		d.failed(errNoAnswer)
	}
}
