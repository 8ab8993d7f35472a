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

// demandTimeout is how long the first list of an informer may take until those that
// wait for it are told that there is no answer.
const demandTimeout = 10 * time.Second

// errNoAnswer is the failure of a list that takes longer than that.
var errNoAnswer = fmt.Errorf("the API server has not answered within %v", demandTimeout)

// UnfilledError is the error of an informer that does not hold yet what there is. It
// wraps [ErrNotSynced] and, where there is one, the failure.
type UnfilledError struct {
	// Failure is why the API server cannot be asked; nil while it is being asked.
	Failure error
}

// Error implements error.
func (e *UnfilledError) Error() string {
	if e.Failure != nil {
		return e.Failure.Error()
	}
	return "informer that was just started: " + ErrNotSynced.Error()
}

// Unwrap returns what the error stands for.
func (e *UnfilledError) Unwrap() []error {
	if e.Failure != nil {
		return []error{ErrNotSynced, e.Failure}
	}
	return []error{ErrNotSynced}
}

func (e *UnfilledError) pending() bool { return e.Failure == nil }

// IsPending reports whether err is, in each of its branches, an informer that is
// being filled.
func IsPending(err error) bool {
	return every(err, func(link error) bool {
		unfilled, ok := link.(interface{ pending() bool })
		return ok && unfilled.pending()
	})
}

// OnDemand is an informer that sends nothing until somebody needs it: a feature
// that nobody uses then costs no request and no memory. Once needed, it stays.
type OnDemand struct {
	informer cache.SharedIndexInformer
	once     sync.Once
	needed   chan struct{}

	mu sync.Mutex
	// failure is why the informer is not filled yet; nil while nothing has failed.
	failure error
	// asking are those that asked in vain.
	asking map[cache.ObjectName]*asker
}

// asker is the queue of a key that waits, and whether it has been told of a failure.
type asker struct {
	queue Enqueuer
	told  bool
}

// NewOnDemand wraps an informer that nobody else starts, and whose watch errors
// nobody else handles.
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

// Need starts the informer unless it runs, and returns nil when it holds what there
// is. Otherwise it returns an [*UnfilledError] at once. The key is then put into the
// queue, with reason [DependencyReady], when the informer is filled, and once when
// that fails for the first time; it is told of later failures when it asks again.
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

// filled wakes all that asked in vain.
func (d *OnDemand) filled() {
	d.mu.Lock()
	asking := d.asking
	d.asking, d.failure = map[cache.ObjectName]*asker{}, nil
	d.mu.Unlock()
	for key, asker := range asking {
		asker.queue.Enqueue(key, DependencyReady)
	}
}

// failed notes why the informer is not filled, and wakes those that do not know of
// any failure yet. One that was filled keeps what it holds, and its watch begins
// again.
func (d *OnDemand) failed(err error) {
	if d.informer.HasSynced() {
		return
	}
	var answer *apierrors.StatusError
	if errors.As(err, &answer) {
		err = answer // Without the words of client-go around it.
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

// silent is the failure of an API server that does not answer.
func (d *OnDemand) silent() {
	d.mu.Lock()
	failure := d.failure
	d.mu.Unlock()
	if failure == nil {
		d.failed(errNoAnswer)
	}
}
