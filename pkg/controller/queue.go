// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// conflictShare divides baseDelay for the first retry after a conflict. That
// retry is early because the cache is usually up to date within milliseconds.
const conflictShare = 5

// Jitter returns a random duration within 10 % of d. It spreads periodic passes
// over time, so that a restart or a resync does not cause a burst of requests.
func Jitter(d time.Duration) time.Duration {
	return wait.Jitter(d-d/10, 2.0/9)
}

// smallReasons are the causes of passes that usually need few requests.
const smallReasons = Drift | HealthChange

// lane is a line of waiting keys. Each lane has its own workers, so that the passes of one lane do
// not wait for the passes of the other lane.
type lane int

const (
	// large also has the keys whose deadlines are over. A status that is held until the objects are
	// healthy then waits for installs, and is written once.
	large lane = iota
	// small has the keys whose reasons are all small.
	small
	lanes
)

// nameOf returns the name of a lane of a queue in metrics.
func (l lane) nameOf(queue string) string {
	if l == small {
		return queue + "-small"
	}
	return queue
}

// queue has two workqueues of keys, and the reasons and deadlines of each key. Before start, the
// queue holds keys and hands out none. [turns] orders the keys of each lane. A key may be in both
// lanes, but only one worker at a time has it.
type queue struct {
	clock     clock.WithTicker
	failures  workqueue.TypedRateLimiter[cache.ObjectName]
	conflicts workqueue.TypedRateLimiter[cache.ObjectName]
	retries   workqueue.CounterMetric
	// shares has the shares of each lane.
	shares [lanes]*shares
	// wakes numbers the keys of wake, because the workqueue merges equal keys.
	wakes atomic.Int64

	mu    sync.Mutex
	items map[cache.ObjectName]*item
	// work has the lanes; nil before start. delayed is the large lane.
	work    [lanes]workqueue.TypedInterface[cache.ObjectName]
	delayed workqueue.TypedDelayingInterface[cache.ObjectName]
}

// metricsInterval is the time between two updates of a queue's metrics of unfinished work.
// client-go's interval of half a second would wake an idle process with 20 queues 40 times a
// second.
const metricsInterval = 2 * time.Second

// rareTicks is a clock whose tickers have at least metricsInterval.
type rareTicks struct{ clock.WithTicker }

// NewTicker implements clock.WithTicker.
func (c rareTicks) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(d, metricsInterval))
}

// item is the state of one key. Empty items are removed, so that the keys of
// deleted objects do not accumulate.
type item struct {
	// due are the reasons for which a pass must start now.
	due Reason
	// carried are the reasons of failed passes. They start no pass; the next pass
	// gets them.
	carried Reason
	// deadlines maps each reason to the time at which it becomes due.
	deadlines map[Reason]time.Time
	// busy says that a worker has the key for a pass. The end of the pass queues the reasons that became due meanwhile.
	busy bool
}

// lane returns the lane of a key that is due. After a failed pass, its reasons count, too.
func (it *item) lane() lane {
	if (it.due|it.carried)&^(smallReasons|Retry) == 0 {
		return small
	}
	return large
}

// turn is a key that a worker has taken.
type turn struct {
	lane lane
	key  cache.ObjectName
	// due are the reasons that start a pass; 0 if no pass is due. carried are the reasons of failed
	// passes.
	due, carried Reason
}

func newQueue(opts Options) *queue {
	return &queue{
		clock:     opts.Clock,
		failures:  workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](baseDelay, maxDelay),
		conflicts: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](baseDelay/conflictShare, maxDelay),
		retries:   opts.Metrics.retries(opts.Name),
		shares:    [lanes]*shares{large: newShares(opts.Workers), small: newShares(opts.Workers)},
		items:     map[cache.ObjectName]*item{},
	}
}

// start creates the workqueues and adds the keys and deadlines so far. The
// goroutines of the workqueues run until shutDown.
func (q *queue) start(name string, metrics *Metrics) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l := range lanes {
		name := l.nameOf(name)
		q.work[l] = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{
			Name:            name,
			Clock:           rareTicks{q.clock},
			MetricsProvider: metrics.workqueues(),
			Queue:           newTurns(q.clock, q.shares[l], metrics.turnWait(name)),
		})
	}
	// The rate limiters are separate from the delaying queue, because a rate-limited
	// queue does not return the delay, which the deadlines need. The delaying queue
	// has no name, because it would count every timer as a retry.
	q.delayed = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
		Clock: q.clock, Queue: q.work[large],
	})
	q.work[large] = q.delayed
	for key, it := range q.items {
		q.push(key, it)
		q.arm(key, it)
	}
}

// shutDown ends the queue's goroutines and drops its timers. Workers still take
// the queued keys, and skip them.
func (q *queue) shutDown() {
	for _, work := range q.work {
		work.ShutDown()
	}
}

// add makes a pass for key due now.
func (q *queue) add(key cache.ObjectName, why Reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if why.Has(SpecChange) {
		q.forgetFailures(key)
	}
	it := q.item(key)
	it.due |= why
	q.push(key, it)
	q.prune(key, it)
}

// push adds a key to its lane if a pass is due and no worker has the key.
func (q *queue) push(key cache.ObjectName, it *item) {
	if q.delayed == nil || it.due == 0 || it.busy {
		return
	}
	q.work[it.lane()].Add(key)
}

// addAfter makes a pass for key due in d. It replaces an earlier deadline of the
// same reason.
func (q *queue) addAfter(key cache.ObjectName, d time.Duration, why Reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setDeadline(key, d, why)
}

// drop removes the keys whose namespaces are in a shard, and returns them. The workqueues may still
// hand them out; no reason is then due.
func (q *queue) drop(in InShard) []cache.ObjectName {
	q.mu.Lock()
	defer q.mu.Unlock()
	var dropped []cache.ObjectName
	for key, it := range q.items {
		if in(key.Namespace) {
			dropped = append(dropped, key)
			*it = item{busy: it.busy}
			q.prune(key, it)
			q.forgetFailures(key)
		}
	}
	return dropped
}

// take returns the next key of a lane and its reasons. No reason is due if the deadline that woke
// the key was replaced since, or if the key belongs to the large lane or to another worker. Call
// done for every key that take returns. take returns false after shutDown, when the lane is empty.
func (q *queue) take(from lane) (taken turn, ok bool) {
	key, shutdown := q.work[from].Get()
	if shutdown {
		return turn{}, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	taken = turn{lane: from, key: key}
	it := q.item(key)
	if it.busy {
		return taken, true
	}
	now := q.clock.Now()
	maps.DeleteFunc(it.deadlines, func(why Reason, at time.Time) bool {
		if at.After(now) {
			return false
		}
		it.due |= why
		return true
	})
	if it.due != 0 && (from == large || it.lane() == small) {
		taken.due, taken.carried = it.due, it.carried
		it.due, it.carried, it.busy = 0, 0, true
	}
	q.push(key, it)
	q.arm(key, it)
	q.prune(key, it)
	return taken, true
}

// done gives a key back, so that another worker may take it. Unless the caller takes the next key,
// it has to call wake.
func (q *queue) done(taken turn) {
	if taken.due != 0 {
		q.release(taken.key)
	}
	q.shares[taken.lane].end(taken.key.Namespace)
	q.work[taken.lane].Done(taken.key)
}

// wake lets a worker look whether a waiting key may be taken now. The workqueue wakes a worker only
// for an added key. The added key is of no object, and has no pass.
func (q *queue) wake(l lane) {
	q.work[l].Add(cache.ObjectName{Namespace: "/", Name: strconv.FormatInt(q.wakes.Add(1), 10)})
}

// release queues the reasons that became due during a pass.
func (q *queue) release(key cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.item(key)
	it.busy = false
	q.push(key, it)
	q.arm(key, it)
	q.prune(key, it)
}

// succeeded resets the backoff of key and sets the time of the next periodic pass.
// If requeueAfter is 0, there is no periodic pass.
func (q *queue) succeeded(key cache.ObjectName, requeueAfter time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetFailures(key)
	it := q.item(key)
	delete(it.deadlines, PeriodicResync)
	if requeueAfter > 0 {
		q.setDeadline(key, requeueAfter, PeriodicResync)
	}
	q.prune(key, it)
}

// failed adds the reasons of a failed pass to the next pass. With a limiter, it also schedules a
// retry and returns the delay. A pass that an event has started before the time of the retry leaves
// that time as it is, and is not counted: many events would otherwise make the delay long.
func (q *queue) failed(
	key cache.ObjectName, why Reason, requeueAfter time.Duration,
	limiter workqueue.TypedRateLimiter[cache.ObjectName],
) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.item(key)
	it.carried |= why | Retry
	if requeueAfter > 0 {
		q.setDeadline(key, requeueAfter, PeriodicResync)
	}
	if limiter == nil {
		q.forgetFailures(key)
		return 0
	}
	if left := it.deadlines[Retry].Sub(q.clock.Now()); left > 0 && limiter == q.failures {
		return left
	}
	delay := Jitter(limiter.When(key))
	q.retries.Inc()
	q.setDeadline(key, delay, Retry)
	return delay
}

// attempts returns the number of consecutive failed passes over key.
func (q *queue) attempts(key cache.ObjectName) int {
	return q.failures.NumRequeues(key) + q.conflicts.NumRequeues(key)
}

// forgetFailures resets the backoff of key, and drops its retry.
func (q *queue) forgetFailures(key cache.ObjectName) {
	q.failures.Forget(key)
	q.conflicts.Forget(key)
	if it, ok := q.items[key]; ok {
		delete(it.deadlines, Retry)
	}
}

func (q *queue) item(key cache.ObjectName) *item {
	it, ok := q.items[key]
	if !ok {
		it = &item{}
		q.items[key] = it
	}
	return it
}

func (q *queue) setDeadline(key cache.ObjectName, d time.Duration, why Reason) {
	it := q.item(key)
	if it.deadlines == nil {
		it.deadlines = map[Reason]time.Time{}
	}
	it.deadlines[why] = q.clock.Now().Add(d)
	q.arm(key, it)
}

// arm makes the delaying queue wake key at its next deadline. The delaying queue
// keeps the earliest wake-up of a key. A deadline that was moved back therefore
// causes one wake-up without a pass, after which take arms the new deadline.
func (q *queue) arm(key cache.ObjectName, it *item) {
	if q.delayed == nil || len(it.deadlines) == 0 {
		return
	}
	var next time.Time
	for _, at := range it.deadlines {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	q.delayed.AddAfter(key, next.Sub(q.clock.Now()))
}

func (q *queue) prune(key cache.ObjectName, it *item) {
	if it.due == 0 && it.carried == 0 && len(it.deadlines) == 0 && !it.busy {
		delete(q.items, key)
	}
}
