// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// releaseTimeout bounds the release of the lease. A lease that is not released expires.
const releaseTimeout = 5 * time.Second

// exitMargin is the time before the expiry of the lease at which work in flight must have ended. It
// covers the end of the process, and clocks that run at different speeds.
const exitMargin = time.Second

// errLeaseLost means that another process may be the leader, now or after the end of a
// leaseLostError.
var errLeaseLost = errors.New("lost the lease")

// errLeaseTaken means that another process is the leader. Work in flight has no more time.
var errLeaseTaken = fmt.Errorf("%w to another process", errLeaseLost)

// leaseLostError is the cause of the end of lead after the loss of the lease.
type leaseLostError struct {
	error
	// end is the time at which work in flight must have ended. It is zero if another process is the
	// leader.
	end time.Time
}

// Unwrap returns the reason of the loss.
func (l *leaseLostError) Unwrap() error { return l.error }

// workFunc does the work of a leader. It returns after a failure, after the end of lead, or after
// the end of stop when the work in flight is finished. An error that wraps errWorkersLeft means
// that workers are still running.
type workFunc func(stop, lead context.Context) error

// leadership runs work while this process holds the lease.
type leadership struct {
	options LeaderElectionOptions
	lock    resourcelock.Interface
	// leading is called when this process starts and stops leading.
	leading func(bool)
	// isGone reports whether the holder of the lease no longer works, although its lease has not
	// expired. Optional.
	isGone func(ctx context.Context, holder string) (bool, error)
	// mayWrite is called with the time until which this process may write: after each renewal, and
	// with the present time when another process has taken the lease.
	mayWrite func(end time.Time)
}

// newLeadership returns a leadership for the Lease that options name.
func newLeadership(options LeaderElectionOptions, identity string, leases coordinationv1client.LeasesGetter, leading func(bool)) *leadership {
	return &leadership{
		options:  options,
		leading:  leading,
		mayWrite: func(time.Time) {},
		lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: options.ResourceNamespace, Name: options.ResourceName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}
}

// run campaigns for the lease until stop ends, and calls work when this process becomes the leader.
// run releases the lease after work has returned, unless workers are still running. Without leader
// election, run calls work at once.
func (l *leadership) run(stop context.Context, work workFunc) error {
	// Neither context ends with stop: while the process drains, it keeps the lease and the work in
	// flight continues.
	base := context.WithoutCancel(stop)
	lead, lose := context.WithCancelCause(base)
	defer lose(nil)
	if !l.options.Enabled {
		return l.lead(stop, lead, work)
	}
	elect, resign := context.WithCancel(base)
	defer resign()
	started := make(chan struct{})
	lock := l.watch(lead, lose)
	defer lock.close()
	elector, err := l.elector(started, lock)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(elect)
	}()

	select {
	case <-started:
		err = l.lead(stop, lead, work)
	case <-stop.Done():
	}
	lost := lead.Err() != nil
	resign()
	<-ended
	// The elector may have acquired the lease at the same moment in which resign was called.
	if elector.IsLeader() && !lost && !errors.Is(err, errWorkersLeft) {
		l.release(base)
	}
	return err
}

// lead calls work as the leader.
func (l *leadership) lead(stop, lead context.Context, work workFunc) error {
	l.leading(true)
	defer l.leading(false)
	return work(stop, lead)
}

// watch returns the lock of the elector. The lock calls lose, which ends lead, when this process
// loses the lease.
func (l *leadership) watch(lead context.Context, lose context.CancelCauseFunc) *watchfulLock {
	name := l.lock.Describe()
	return &watchfulLock{
		Interface: l.lock,
		lead:      lead,
		deadline:  l.options.RenewDeadline,
		isGone:    l.isGone,
		renewal:   func(sent time.Time) { l.mayWrite(l.end(sent)) },
		taken: func(holder string) {
			l.mayWrite(time.Now())
			lose(&leaseLostError{error: fmt.Errorf("%w: %s is held by %s", errLeaseTaken, name, holder)})
		},
		unrenewed: func(renewed time.Time) {
			lose(&leaseLostError{
				error: fmt.Errorf("%w %s: could not renew it for %v (--leader-elect-renew-deadline)",
					errLeaseLost, name, l.options.RenewDeadline),
				end: l.end(renewed),
			})
		},
	}
}

// end returns the time at which work must have ended after the last renewal. While the elector
// still tries to renew the lease, work goes on.
func (l *leadership) end(renewed time.Time) time.Time {
	return renewed.Add(max(l.options.LeaseDuration-exitMargin, l.options.RenewDeadline))
}

// elector returns an elector that closes started when it acquires the lease. The lock reports the
// loss of the lease.
func (l *leadership) elector(started chan<- struct{}, lock *watchfulLock) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          l.options.ResourceName,
		Lock:          lock,
		LeaseDuration: l.options.LeaseDuration,
		RenewDeadline: l.options.RenewDeadline,
		RetryPeriod:   l.options.RetryPeriod,
		// run releases the lease instead. After a failed renewal, the elector would first try to
		// release the lease for another renew deadline.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			// The elector measures the renew deadline from its first attempt, the lock from the
			// last renewal. So the lock has reported the loss before.
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != "" && identity != l.lock.Identity() {
					klog.Background().Info("Standing by", "lease", l.lock.Describe(), "leader", identity)
				}
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring leader election: %w", err)
	}
	return elector, nil
}

// watchfulLock reports the loss of the lease earlier than the elector:
//
//   - It calls taken when this process holds the lease and reads that another process holds it.
//     This happens after a pause of the process that was longer than the lease duration, and after
//     a change of the lease by a user.
//   - It calls unrenewed when the deadline has passed since the last successful renewal was sent.
//     The standby counts the lease duration from a later moment, because it reads the lease after
//     the API server has stored the renewal.
type watchfulLock struct {
	resourcelock.Interface
	lead      context.Context
	deadline  time.Duration
	taken     func(holder string)
	unrenewed func(renewed time.Time)
	renewal   func(sent time.Time)
	isGone    func(ctx context.Context, holder string) (bool, error)

	held atomic.Bool
	mu   sync.Mutex
	// expiry calls unrenewed. It is nil before the first renewal.
	expiry *time.Timer
	closed bool
}

// renewed records a renewal that was sent at the time sent.
func (l *watchfulLock) renewed(sent time.Time) {
	l.held.Store(true)
	l.renewal(sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.expiry = time.AfterFunc(time.Until(sent.Add(l.deadline)), func() { l.unrenewed(sent) })
}

// untilAnswered returns the context of one request of the elector, which ends with lead and at the
// elector's deadline. The end of the campaign does not cancel a request in flight: the elector
// would log an error, and nobody would know who holds the lease. The timeout of the client bounds
// the request.
func (l *watchfulLock) untilAnswered(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(l.lead, deadline)
	}
	return context.WithCancel(l.lead)
}

// close ends the watch.
func (l *watchfulLock) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// Get implements resourcelock.Interface. A candidate sees the lease of a holder that is gone as
// released, because each candidate would count its expiry anew. A holder that is not gone renews
// the lease meanwhile, so that the update of the candidate meets a conflict.
func (l *watchfulLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.untilAnswered(ctx)
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err != nil, record.HolderIdentity == "", record.HolderIdentity == l.Identity():
	case l.held.Load():
		l.taken(record.HolderIdentity)
	case l.isGone != nil:
		gone, err := l.isGone(ctx, record.HolderIdentity)
		if err != nil {
			return nil, nil, err
		}
		if gone {
			record.HolderIdentity = ""
		}
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *watchfulLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.untilAnswered(ctx)
	defer cancel()
	sent := time.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.renewed(sent)
	}
	return err
}

// Update implements resourcelock.Interface. The elector updates the lease only in order to hold it.
func (l *watchfulLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.untilAnswered(ctx)
	defer cancel()
	sent := time.Now()
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.renewed(sent)
	}
	return err
}

// release releases the lease, so that a standby takes over before the lease expires. If the release
// fails, the standby waits until then.
func (l *leadership) release(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("lease", l.lock.Describe())
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		// Read the lease, because the response to the last renewal may have been lost.
		record, _, err := l.lock.Get(ctx)
		if err != nil {
			return err
		}
		if record.HolderIdentity != l.lock.Identity() {
			return nil
		}
		now := metav1.Now()
		return l.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions:    record.LeaderTransitions,
			LeaseDurationSeconds: 1,
			AcquireTime:          now,
			RenewTime:            now,
		})
	})
	if err != nil {
		logger.Error(err, "Could not release the lease; it expires", "after", l.options.LeaseDuration)
		return
	}
	logger.Info("Released the lease")
}

// checkLeases calls checkLease for all Leases of the process.
func checkLeases(ctx context.Context, leases coordinationv1client.LeasesGetter, options Options) error {
	election := options.LeaderElection
	if err := checkLease(ctx, leases, election); err != nil || options.Shards == 1 {
		return err
	}
	for shard := range options.Shards {
		election.ResourceName = shardLeaseName(options.LeaderElection, shard)
		if err := checkLease(ctx, leases, election); err != nil {
			return err
		}
	}
	return nil
}

// checkLease returns an error unless the lease exists or can be created. Without this check, a
// missing namespace or permission would show only in the endless retries of the elector.
func checkLease(ctx context.Context, leases coordinationv1client.LeasesGetter, options LeaderElectionOptions) error {
	ns, name := options.ResourceNamespace, options.ResourceName
	err := retryTransient(ctx, func(ctx context.Context) error {
		_, err := leases.Leases(ns).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		_, err = leases.Leases(ns).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the namespace %q of the lease does not exist: create it, or name another with --leader-elect-resource-namespace", ns)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the lease %s/%s cannot be kept: %w; grant get, create and update of leases there, or run a single replica with --leader-elect=false", ns, name, err)
	case err != nil:
		return fmt.Errorf("checking the lease %s/%s: %w", ns, name, err)
	}
	return nil
}
