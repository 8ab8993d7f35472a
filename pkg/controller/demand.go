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

// demandTimeout is the time after which callers get errNoAnswer, if the first list of an informer
// has not returned.
const demandTimeout = 10 * time.Second

// errNoAnswer is the failure of a first list that exceeds demandTimeout.
var errNoAnswer = fmt.Errorf("the API server has not answered within %v", demandTimeout)

// UnfilledError says that an informer has not delivered its first list. It wraps [ErrNotSynced] and
// Failure.
type UnfilledError struct {
	// Failure is the error of the list. It is nil while the list is in flight.
	Failure error
}

// Error implements error.
func (e *UnfilledError) Error() string {
	if e.Failure != nil {
		return e.Failure.Error()
	}
	return "informer that was just started: " + ErrNotSynced.Error()
}

// Unwrap returns ErrNotSynced and the failure, if there is one.
func (e *UnfilledError) Unwrap() []error {
	if e.Failure != nil {
		return []error{ErrNotSynced, e.Failure}
	}
	return []error{ErrNotSynced}
}

func (e *UnfilledError) pending() bool { return e.Failure == nil }

// StaleError says that a pass had an older version of an object than the API server has.
type StaleError struct {
	Object cache.ObjectName
}

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("the cache has an older version of %s than the API server", e.Object)
}

// Unwrap returns ErrNotSynced.
func (e *StaleError) Unwrap() error { return ErrNotSynced }

func (e *StaleError) pending() bool { return true }

// IsPending reports whether each branch of err only waits for a cache: it is a [*StaleError],
// or an [*UnfilledError] without a failure.
func IsPending(err error) bool {
	return every(err, func(link error) bool {
		unfilled, ok := link.(interface{ pending() bool })
		return ok && unfilled.pending()
	})
}

// OnDemand is an informer that starts with the first call of Need and runs until the context of Run
// ends. An unused feature therefore costs neither requests nor memory.
type OnDemand struct {
	informer cache.SharedIndexInformer
	once     sync.Once
	needed   chan struct{}

	mu sync.Mutex
	// failure is the error of the first list. It is nil unless the list failed.
	failure error
	// waiting holds the keys that called Need before the informer had synced.
	waiting map[cache.ObjectName]*waitingKey
}

// waitingKey is the queue of a key that waits. notified is true if the key got the failure.
type waitingKey struct {
	queue    Enqueuer
	notified bool
}

// NewOnDemand wraps an informer. The caller neither starts the informer nor sets its watch error
// handler. OnDemand calls watchErrors for the errors of all lists and watches, see
// [Metrics.WatchErrors].
func NewOnDemand(informer cache.SharedIndexInformer, watchErrors cache.WatchErrorHandlerWithContext) (*OnDemand, error) {
	d := &OnDemand{informer: informer, needed: make(chan struct{}), waiting: map[cache.ObjectName]*waitingKey{}}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		watchErrors(ctx, reflector, err)
		d.failed(err)
	})
	if err != nil {
		return nil, fmt.Errorf("informer on demand: %w", err)
	}
	return d, nil
}

// Informer returns the informer, for handlers, indexers and reads.
func (d *OnDemand) Informer() cache.SharedIndexInformer { return d.informer }

// Run waits for the first call of Need, and then runs the informer until ctx ends.
func (d *OnDemand) Run(ctx context.Context) {
	select {
	case <-d.needed:
	case <-ctx.Done():
		return
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { d.informer.RunWithContext(ctx) })
	timeout, cancel := context.WithTimeout(ctx, demandTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(timeout.Done(), d.informer.HasSynced) && ctx.Err() == nil {
		d.timedOut()
	}
	if cache.WaitForCacheSync(ctx.Done(), d.informer.HasSynced) {
		d.synced()
	}
}

// Need starts the informer unless it runs. It returns nil if the informer has delivered its first
// list.
//
// Otherwise Need returns an [*UnfilledError] without waiting. The key is enqueued with reason
// [DependencyReady] when the list arrives or fails for the first time. A later failure is returned
// by the next call, and enqueues nothing.
func (d *OnDemand) Need(key cache.ObjectName, queue Enqueuer) error {
	d.once.Do(func() { close(d.needed) })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.informer.HasSynced() {
		return nil
	}
	d.waiting[key] = &waitingKey{queue: queue, notified: d.failure != nil}
	return &UnfilledError{Failure: d.failure}
}

// synced enqueues all waiting keys.
func (d *OnDemand) synced() {
	d.mu.Lock()
	waiting := d.waiting
	d.waiting, d.failure = map[cache.ObjectName]*waitingKey{}, nil
	d.mu.Unlock()
	for key, w := range waiting {
		w.queue.Enqueue(key, DependencyReady)
	}
}

// failed records the failure of the first list, and enqueues the keys that have not got a failure
// yet. After the first list, failures are ignored: the informer keeps its objects, and the
// reflector restarts the watch.
func (d *OnDemand) failed(err error) {
	if d.informer.HasSynced() {
		return
	}
	var answer *apierrors.StatusError
	if errors.As(err, &answer) {
		err = answer // Drop the text that client-go adds.
	}
	d.mu.Lock()
	d.failure = err
	notify := map[cache.ObjectName]Enqueuer{}
	for key, w := range d.waiting {
		if !w.notified {
			w.notified = true
			notify[key] = w.queue
		}
	}
	d.mu.Unlock()
	for key, queue := range notify {
		queue.Enqueue(key, DependencyReady)
	}
}

// timedOut records errNoAnswer, unless the first list has failed already.
func (d *OnDemand) timedOut() {
	d.mu.Lock()
	failure := d.failure
	d.mu.Unlock()
	if failure == nil {
		d.failed(errNoAnswer)
	}
}
