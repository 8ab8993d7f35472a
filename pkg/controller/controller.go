// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// MaxWaiting is the number of passes of a controller that may wait at a time without a worker, see
// [ReleaseWorker].
const MaxWaiting = 50

const (
	// defaultWorkers is the default of Options.Workers.
	defaultWorkers = 10
	// baseDelay and maxDelay bound the delay before a retry. The delay doubles with each failure of
	// an object, and has a jitter of 10 %.
	baseDelay = 500 * time.Millisecond
	maxDelay  = 5 * time.Minute
	// slowPass is the time after which a pass frees its worker for another object. A pass that takes
	// longer mostly waits for a server.
	slowPass = time.Second
	// syncPollInterval is the interval at which Run checks whether the caches have synced.
	syncPollInterval = 50 * time.Millisecond
	// slowSync is the time after which Run logs which caches have not synced.
	slowSync = time.Minute
)

// Result is the result of a pass.
type Result struct {
	// RequeueAfter is the delay until the next pass with reason PeriodicResync.
	// It replaces the delay that an earlier pass set; 0 removes that delay.
	// Together with an error, 0 keeps it. Use [Jitter] for periodic passes.
	RequeueAfter time.Duration
}

// Reconciler moves the observed state closer to the desired state of one object.
type Reconciler interface {
	// Reconcile makes one pass over the object named by key. The object may be
	// gone. Reconcile is never called twice at a time for the same key.
	//
	// The context is canceled when the leader lease is lost, and not when the
	// process stops. It carries a logger with the fields of the pass, see [LogGeneration].
	Reconcile(ctx context.Context, key cache.ObjectName, why Reason) (Result, error)
}

// ReconcilerFunc is a function that implements [Reconciler].
type ReconcilerFunc func(ctx context.Context, key cache.ObjectName, why Reason) (Result, error)

// Reconcile calls f.
func (f ReconcilerFunc) Reconcile(ctx context.Context, key cache.ObjectName, why Reason) (Result, error) {
	return f(ctx, key, why)
}

// Options configure a [Controller]. Every field except Name has a default.
type Options struct {
	// Name is the name of the controller in logs, errors and metrics.
	Name string
	// Workers is the number of objects that are reconciled at a time. The default is 10. Objects
	// whose passes are slow do not count, see [slowPass].
	Workers int
	// Clock drives timers and measures durations. The default is the real clock.
	Clock clock.WithTicker
	// Metrics receives the measurements. If it is nil, nothing is measured.
	Metrics *Metrics
	// Shards are the namespaces whose objects are reconciled. If it is nil, these are all.
	Shards *Shards
	// Forget is called for a deleted object whose shard the process does not hold. Optional.
	Forget func(key cache.ObjectName)
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// NamedSync is an informer or an event handler that must sync before the first
// pass. [AddHandler] returns one.
type NamedSync struct {
	Name      string
	HasSynced cache.InformerSynced
}

// Controller runs a [Reconciler] for the keys that are enqueued.
type Controller struct {
	reconciler Reconciler
	opts       Options
	queue      *queue
	metrics    reconcileMetrics
	workers    sync.WaitGroup
	// counts are the numbers of workers.
	counts [lanes]int
	slots  *slots
}

// New returns a controller that does nothing until [Controller.Run]. Keys that
// are enqueued earlier are kept.
func New(r Reconciler, opts Options) *Controller {
	opts = opts.withDefaults()
	counts := [lanes]int{large: opts.Workers, small: opts.Workers}
	return &Controller{
		reconciler: r,
		opts:       opts,
		queue:      newQueue(opts),
		metrics:    opts.Metrics.reconciles(opts.Name),
		counts:     counts,
		slots:      newSlots(counts),
	}
}

// Name returns Options.Name.
func (c *Controller) Name() string { return c.opts.Name }

// Drift returns the counters of the drift that the controller finds and corrects.
func (c *Controller) Drift() DriftCount { return c.opts.Metrics.Drift(c.opts.Name) }

// Fails reports whether the last pass over key failed for a transient reason and is retried.
// Conflicts do not count.
func (c *Controller) Fails(key cache.ObjectName) bool { return c.queue.failures.NumRequeues(key) > 0 }

// Enqueue requests a pass over key now, in addition to earlier requests. It does nothing if
// another process holds the shard of the key.
func (c *Controller) Enqueue(key cache.ObjectName, why Reason) {
	switch {
	case c.opts.Shards.Holds(key.Namespace):
		c.queue.add(key, why)
	case why.Has(Deleted) && c.opts.Forget != nil:
		c.opts.Forget(key)
	}
}

// EnqueueAfter requests a pass over key after d. It replaces only an earlier
// request with the same key and reason.
func (c *Controller) EnqueueAfter(key cache.ObjectName, d time.Duration, why Reason) {
	switch {
	case d <= 0:
		c.Enqueue(key, why)
	case c.opts.Shards.Holds(key.Namespace):
		c.queue.addAfter(key, d, why)
	}
}

// Shards returns Options.Shards.
func (c *Controller) Shards() *Shards { return c.opts.Shards }

// Drop removes all keys of a shard, and returns them. Keys that workers hold are not removed.
func (c *Controller) Drop(in InShard) []cache.ObjectName { return c.queue.drop(in) }

// Run waits until every informer in synced has delivered its first list. It then
// reconciles until stop or lead ends, and returns after all workers have
// returned. Call it once.
//
// The wait has no limit, because an informer retries until it may list its objects.
// The log names the informers that take longer than a minute.
//
// When stop ends, no further pass starts, passes in flight finish, and Run
// returns nil. When lead ends, the contexts of passes in flight are canceled, and
// Run returns an error that wraps the cause. The context of a pass derives from
// lead, not from stop.
func (c *Controller) Run(stop, lead context.Context, synced ...NamedSync) error {
	logger := klog.LoggerWithValues(klog.FromContext(lead), fieldController, c.opts.Name)
	c.waitForSync(stop, lead, logger, synced)
	logger.V(1).Info("Starting", "workers", c.opts.Workers)
	c.queue.start(c.opts.Name, c.opts.Metrics)
	ctx := klog.NewContext(lead, logger)
	for from, count := range c.counts {
		for range count {
			c.workers.Go(func() { c.work(ctx, stop, lane(from)) })
		}
	}

	select {
	case <-stop.Done():
	case <-lead.Done():
	}
	logger.V(1).Info("Stopping")
	c.queue.shutDown()
	c.workers.Wait()
	logger.V(1).Info("Stopped")
	if lead.Err() != nil {
		return fmt.Errorf("controller %q: lead ended: %w", c.opts.Name, context.Cause(lead))
	}
	return nil
}

// waitForSync returns when every cache has synced or a context has ended.
func (c *Controller) waitForSync(stop, lead context.Context, logger klog.Logger, waiting []NamedSync) {
	begin, logged := c.opts.Clock.Now(), ""
	poll := c.opts.Clock.NewTicker(syncPollInterval)
	defer poll.Stop()
	for {
		var names []string
		for _, s := range waiting {
			if !s.HasSynced() {
				names = append(names, s.Name)
			}
		}
		if len(names) == 0 {
			return
		}
		if missing := strings.Join(names, ", "); missing != logged && c.opts.Clock.Since(begin) >= slowSync {
			logger.Error(ErrNotSynced, "The controller waits for its caches; check that the operator may list and watch them",
				"caches", missing)
			logged = missing
		}
		select {
		case <-stop.Done():
			return
		case <-lead.Done():
			return
		case <-poll.C():
		}
	}
}

// work takes the keys of a lane until the queue is shut down. After the end of either context,
// it gives keys back without a pass. A worker whose pass released it, or was slow, ends with
// that pass, because another worker has replaced it.
func (c *Controller) work(ctx, stop context.Context, from lane) {
	for {
		taken, ok := c.queue.take(from)
		if !ok {
			return
		}
		c.slots.take(from)
		s := &slot{
			slots: c.slots, queue: c.queue, stop: stop, lane: from, key: taken.key, onWait: c.metrics.wait, onResume: c.metrics.resume,
			replaceWorker: func() { c.workers.Go(func() { c.work(ctx, stop, from) }) },
		}
		s.hold()
		if taken.due != 0 && stop.Err() == nil && ctx.Err() == nil {
			c.processInShard(context.WithValue(ctx, slotKey{}, s), s, taken.due, taken.carried)
		}
		replaced := s.close()
		c.queue.done(taken)
		if replaced {
			c.queue.wake(from)
			return
		}
	}
}

// processInShard makes one pass unless another process holds the shard of the key.
func (c *Controller) processInShard(ctx context.Context, s *slot, due, carried Reason) {
	ctx, end, ok := c.opts.Shards.Begin(ctx, s.key.Namespace)
	if !ok {
		return
	}
	defer end()
	c.process(ctx, s, due, carried)
}

// process makes one pass over the key of s and schedules the next one. due are the reasons that
// start the pass, and carried are the reasons of failed passes.
func (c *Controller) process(ctx context.Context, s *slot, due, carried Reason) {
	key, why := s.key, due|carried
	logger := passLogger(ctx, key, why)
	start := c.opts.Clock.Now()
	c.metrics.begin()

	result, err := c.reconcile(klog.NewContext(ctx, logger), key, why)

	took, logged := c.opts.Clock.Since(start), forLog(err)
	if err != nil || logger.V(4).Enabled() { // Most passes write no line.
		logger = klog.LoggerWithValues(logger, fieldGeneration, s.generation)
	}
	var panicked *panicError
	switch {
	case err == nil:
		c.queue.succeeded(key, result.RequeueAfter)
		c.metrics.end(due, resultSuccess, took)
		logger.V(4).Info("Reconciled", "took", took, "requeueAfter", result.RequeueAfter)
	case errors.As(err, &panicked):
		delay := c.queue.failed(key, why, result.RequeueAfter, c.queue.failures)
		c.metrics.end(due, resultPanic, took)
		logger.Error(logged, "Reconcile panicked", "retryIn", delay, "stack", panicked.stack)
	case ctx.Err() != nil, IsInterrupted(ctx, err):
		// Another replica is the leader and makes the next pass.
		c.metrics.end(due, resultError, took)
		logger.V(1).Info("Reconcile was interrupted", "err", logged)
	case IsTerminal(err):
		c.queue.failed(key, why, result.RequeueAfter, nil)
		c.metrics.end(due, resultTerminal, took)
		logger.Error(logged, "Reconcile failed, waiting for a change", "requeueAfter", result.RequeueAfter)
	case isConflict(err):
		delay := c.queue.failed(key, why, result.RequeueAfter, c.queue.conflicts)
		c.metrics.end(due, resultConflict, took)
		logger.V(4).Info("Reconcile met a conflict", "retryIn", delay, "err", logged)
	case IsPending(err):
		// Not a failure: the informer enqueues the key when it has synced.
		delay := c.queue.failed(key, why, result.RequeueAfter, c.queue.conflicts)
		c.metrics.end(due, resultSuccess, took)
		logger.V(4).Info("Reconcile waits for an informer", "retryIn", delay, "err", logged)
	default:
		delay := c.queue.failed(key, why, result.RequeueAfter, c.queue.failures)
		c.metrics.end(due, resultError, took)
		logger.Error(logged, "Reconcile failed", "retryIn", delay, "attempts", c.queue.attempts(key))
	}
}

// panicError is a recovered panic of the reconciler.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName, why Reason) (result Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = Result{}, &panicError{value: value, stack: panicStack()}
		}
	}()
	return c.reconciler.Reconcile(ctx, key, why)
}
