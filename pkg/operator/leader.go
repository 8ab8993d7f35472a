// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
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

// releaseTimeout bounds the release of the lease; one that is not released expires by itself.
const releaseTimeout = 5 * time.Second

// minLostLeaseGrace is the least time that workers get to return after the lease was lost.
const minLostLeaseGrace = time.Second

// errLeaseLost says that another process may lead by now.
var errLeaseLost = errors.New("lost the lease")

// workFunc does the work of a leader. It returns when stop has ended and all is finished, when lead has ended, or when
// something failed. An error that is errWorkersLeft means that some work goes on.
type workFunc func(stop, lead context.Context) error

// leadership runs work while this process holds the lease.
type leadership struct {
	options LeaderElectionOptions
	lock    resourcelock.Interface
	// leading is told whether this process leads.
	leading func(bool)
}

// newLeadership returns a leadership over the Lease that options name.
func newLeadership(options LeaderElectionOptions, identity string, leases coordinationv1client.LeasesGetter, leading func(bool)) *leadership {
	return &leadership{
		options: options,
		leading: leading,
		lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: options.ResourceNamespace, Name: options.ResourceName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}
}

// run campaigns for the lease until stop ends, and calls work once this process leads. The lease is released only after
// work has returned, and not at all if work left something running. With leader election off, work runs at once.
func (l *leadership) run(stop context.Context, work workFunc) error {
	// Neither context ends with stop: the lease is kept, and work in flight goes on, while the process drains.
	base := context.WithoutCancel(stop)
	lead, lose := context.WithCancelCause(base)
	defer lose(nil)
	if !l.options.Enabled {
		return l.lead(stop, lead, work)
	}
	elect, resign := context.WithCancel(base)
	defer resign()
	started := make(chan struct{})
	elector, err := l.elector(started, lose)
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
	// An elector that was told to resign in the moment of its victory holds the lease all the same.
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

// elector returns an elector that closes started when it has the lease and ends the context behind lose when it has
// lost it.
func (l *leadership) elector(started chan<- struct{}, lose context.CancelCauseFunc) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          l.options.ResourceName,
		Lock:          l.lock,
		LeaseDuration: l.options.LeaseDuration,
		RenewDeadline: l.options.RenewDeadline,
		RetryPeriod:   l.options.RetryPeriod,
		// With true, an elector that fails to renew would try to release the lease, for as long as another renew
		// deadline, before it tells anybody: longer than the lease lasts. So run releases it.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() {
				lose(fmt.Errorf("%w %s: could not renew it for %v (--leader-elect-renew-deadline)",
					errLeaseLost, l.lock.Describe(), l.options.RenewDeadline))
			},
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

// release gives the lease up, so that a standby does not have to wait for its end. A failure costs only that wait.
func (l *leadership) release(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("lease", l.lock.Describe())
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		// The last renewal may have taken effect without our having seen its answer.
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
		logger.Error(err, "Could not release the lease; it expires by itself", "after", l.options.LeaseDuration)
		return
	}
	logger.Info("Released the lease")
}

// lostLeaseGrace is the time between the loss of the lease and the first moment in which another replica can have it.
func (o LeaderElectionOptions) lostLeaseGrace() time.Duration {
	// The last successful renewal was one retry period and one renew deadline before the loss.
	return max(o.LeaseDuration-o.RenewDeadline-o.RetryPeriod, minLostLeaseGrace)
}

// checkLease returns an error that says what to do unless the lease exists or can be created. Without it a missing
// namespace or permission would only show in the elector's retries, which go on for ever.
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
