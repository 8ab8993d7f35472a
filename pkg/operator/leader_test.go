// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

var leaseOptions = LeaderElectionOptions{
	Enabled:           true,
	LeaseDuration:     15 * time.Second,
	RenewDeadline:     10 * time.Second,
	RetryPeriod:       2 * time.Second,
	ResourceNamespace: "demoapp-system",
	ResourceName:      "demoapp-controller",
}

// candidate is one replica and its state.
type candidate struct {
	*leadership
	leads  atomic.Bool
	writes fence
	stop   context.CancelFunc
	ended  chan error
}

// newCandidate starts a replica named identity.
func newCandidate(t *testing.T, client *fake.Clientset, identity string, work workFunc) *candidate {
	t.Helper()
	c := &candidate{ended: make(chan error, 1)}
	c.leadership = newLeadership(leaseOptions, identity, client.CoordinationV1(), c.leads.Store)
	c.mayWrite = c.writes.open
	var stop context.Context
	stop, c.stop = context.WithCancel(t.Context())
	go func() { c.ended <- c.run(stop, work) }()
	return c
}

// holder returns the identity of the holder of the lease.
func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(leaseOptions.ResourceNamespace).
		Get(t.Context(), leaseOptions.ResourceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// drains works until stop ends, and then for d.
func drains(d time.Duration) workFunc {
	return func(stop, lead context.Context) error {
		select {
		case <-stop.Done():
		case <-lead.Done():
			return context.Cause(lead)
		}
		select {
		case <-time.After(d):
			return nil
		case <-lead.Done():
			return context.Cause(lead)
		}
	}
}

func TestLeaseReleaseAfterLastWorker(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(t, client, "a", drains(20*time.Second))
		synctest.Wait()
		b := newCandidate(t, client, "b", drains(0))
		synctest.Wait()
		if !a.leads.Load() || b.leads.Load() {
			t.Fatalf("leading: a %v, b %v", a.leads.Load(), b.leads.Load())
		}

		a.stop()
		elapse(19 * time.Second) // longer than the lease duration: the lease is renewed while the workers drain
		synctest.Wait()
		if got := holder(t, client); got != "a" || b.leads.Load() {
			t.Errorf("while a drains the lease is held by %q, b leads: %v", got, b.leads.Load())
		}
		if err := <-a.ended; err != nil {
			t.Errorf("a: %v", err)
		}
		if got := holder(t, client); got == "a" {
			t.Error("a has not released the lease")
		}
		elapse(5 * time.Second) // one retry period and its jitter of up to 1.2 periods
		synctest.Wait()
		if got := holder(t, client); got != "b" || !b.leads.Load() {
			t.Errorf("after the release the lease is held by %q, b leads: %v", got, b.leads.Load())
		}
		b.stop()
		if err := <-b.ended; err != nil {
			t.Errorf("b: %v", err)
		}
	})
}

func TestStandbyStops(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(t, client, "a", drains(0))
		synctest.Wait()
		b := newCandidate(t, client, "b", func(context.Context, context.Context) error {
			t.Error("a standby works")
			return nil
		})
		elapse(time.Minute)
		b.stop()
		if err := <-b.ended; err != nil {
			t.Errorf("b: %v", err)
		}
		if got := holder(t, client); got != "a" {
			t.Errorf("the lease is held by %q, want a", got)
		}
		a.stop()
		if err := <-a.ended; err != nil {
			t.Errorf("a: %v", err)
		}
	})
}

// breakableLock is a lock on an API server that a test can break.
type breakableLock struct {
	resourcelock.Interface
	brokenSince atomic.Pointer[time.Time]
	hangs       bool
}

func (l *breakableLock) failure(ctx context.Context) error {
	switch {
	case l.brokenSince.Load() == nil:
		return nil
	case !l.hangs:
		return apierrors.NewServiceUnavailable("down")
	}
	// Requests of the lease client time out after half of the renew deadline.
	ctx, cancel := context.WithTimeout(ctx, leaseOptions.RenewDeadline/2)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

func (l *breakableLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.failure(ctx); err != nil {
		return nil, nil, err
	}
	return l.Interface.Get(ctx)
}

func (l *breakableLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.failure(ctx); err != nil {
		return err
	}
	return l.Interface.Update(ctx, record)
}

func TestLostLease(t *testing.T) {
	for name, hangs := range map[string]bool{"requests fail": false, "requests hang": true} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			synctest.Test(t, func(t *testing.T) {
				a := candidate{ended: make(chan error, 1)}
				a.leadership = newLeadership(leaseOptions, "a", client.CoordinationV1(), a.leads.Store)
				lock := &breakableLock{Interface: a.lock, hangs: hangs}
				a.lock = lock
				go func() { a.ended <- a.run(t.Context(), drains(time.Hour)) }()
				elapse(time.Minute + time.Second)
				broken := time.Now()
				lock.brokenSince.Store(&broken)

				err := <-a.ended
				if !errors.Is(err, errLeaseLost) || !strings.Contains(err.Error(), "demoapp-system/demoapp-controller") {
					t.Errorf("error = %v, want %v", err, errLeaseLost)
				}
				// The last successful renewal was before the first failure.
				if took := time.Since(broken); took > leaseOptions.RenewDeadline {
					t.Errorf("work went on for %v after the first failure, want at most %v", took, leaseOptions.RenewDeadline)
				}
				if a.leads.Load() {
					t.Error("a still reports that it leads")
				}
			})
		})
	}
}

// slowLock is a lock on an API server that stores the last renewal at once, answers it after delay,
// and fails afterwards.
type slowLock struct {
	resourcelock.Interface
	delay time.Duration
	slow  atomic.Bool
	// stored is the time of the last renewal.
	stored atomic.Pointer[time.Time]
	broken atomic.Bool
}

func (l *slowLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.broken.Load() {
		return apierrors.NewServiceUnavailable("down")
	}
	now := time.Now()
	l.stored.Store(&now)
	err := l.Interface.Update(ctx, record)
	if l.slow.Load() {
		elapse(l.delay)
		l.broken.Store(true)
	}
	return err
}

// answeringLock is a lock on an API server that answers each request after a second.
type answeringLock struct {
	resourcelock.Interface
	asked atomic.Bool
}

func (l *answeringLock) answer(ctx context.Context) error {
	l.asked.Store(true)
	defer l.asked.Store(false)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

func (l *answeringLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.answer(ctx); err != nil {
		return nil, nil, err
	}
	return l.Interface.Get(ctx)
}

func (l *answeringLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.answer(ctx); err != nil {
		return err
	}
	return l.Interface.Update(ctx, record)
}

// TestStopDuringRenewalLogsNoError: the elector logs a renewal that is canceled as an error.
func TestStopDuringRenewalLogsNoError(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		logger := funcr.New(func(_, line string) { logged.WriteString(line + "\n") }, funcr.Options{})
		stop, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		a := candidate{ended: make(chan error, 1)}
		a.leadership = newLeadership(leaseOptions, "a", client.CoordinationV1(), a.leads.Store)
		lock := &answeringLock{Interface: a.lock}
		a.lock = lock
		go func() { a.ended <- a.run(stop, drains(0)) }()
		elapse(time.Minute)
		for !lock.asked.Load() {
			elapse(100 * time.Millisecond)
		}

		cancel()

		if err := <-a.ended; err != nil {
			t.Errorf("the end is %v", err)
		}
		if strings.Contains(logged.String(), `"error"=`) {
			t.Errorf("logged:\n%s", logged.String())
		}
		if got := holder(t, client); got != "" {
			t.Errorf("the lease is held by %q", got)
		}
	})
}

func TestLostLeaseIsMeasuredFromStartOfLastRenewal(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, leaseOptions.RenewDeadline / 2} {
		t.Run(delay.String(), func(t *testing.T) {
			client := fake.NewClientset()
			synctest.Test(t, func(t *testing.T) {
				a := candidate{ended: make(chan error, 1)}
				a.leadership = newLeadership(leaseOptions, "a", client.CoordinationV1(), a.leads.Store)
				lock := &slowLock{Interface: a.lock, delay: delay}
				a.lock = lock
				go func() { a.ended <- a.run(t.Context(), drains(time.Hour)) }()
				elapse(time.Minute + time.Second)
				lock.slow.Store(true)

				err := <-a.ended

				renewed := *lock.stored.Load()
				if took := time.Since(renewed); took != leaseOptions.RenewDeadline {
					t.Errorf("the leader led for %v after its last renewal, want %v", took, leaseOptions.RenewDeadline)
				}
				var loss *leaseLostError
				if !errors.As(err, &loss) || !errors.Is(err, errLeaseLost) {
					t.Fatalf("error = %v, want %v", err, errLeaseLost)
				}
				if left, limit := loss.end.Sub(renewed), leaseOptions.LeaseDuration-exitMargin; left != limit {
					t.Errorf("work may last until %v after the last renewal, want %v", left, limit)
				}
			})
		})
	}
}

func TestTakenLeaseEndsWorkAtNextRenewal(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		var isTaken atomic.Bool
		// The fake clientset does not compare resourceVersions.
		client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			lease, ok := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			if ok && isTaken.Load() && ptr.Deref(lease.Spec.HolderIdentity, "") == "a" {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, lease.Name, nil)
			}
			return false, nil, nil
		})
		a := newCandidate(t, client, "a", drains(time.Hour))
		elapse(time.Minute + time.Second)
		leases := client.CoordinationV1().Leases(leaseOptions.ResourceNamespace)
		lease, err := leases.Get(t.Context(), leaseOptions.ResourceName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = ptr.To("b")
		isTaken.Store(true)
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		taken := time.Now()

		err = <-a.ended

		if !errors.Is(err, errLeaseTaken) || !errors.Is(err, errLeaseLost) || !strings.Contains(err.Error(), "is held by b") {
			t.Errorf("error = %v, want %v", err, errLeaseTaken)
		}
		if took := time.Since(taken); took > leaseOptions.RetryPeriod {
			t.Errorf("work went on for %v, want at most %v", took, leaseOptions.RetryPeriod)
		}
		if got := holder(t, client); got != "b" {
			t.Errorf("the lease is held by %q, want b", got)
		}
		if !a.writes.closed() {
			t.Error("the fence is open, although another process holds the lease")
		}
	})
}

// TestWritesEndBeforeLease: all valid options leave time for writes, until shortly before the lease
// expires.
func TestWritesEndBeforeLease(t *testing.T) {
	renewed := time.Now()
	for _, test := range []struct{ lease, renew, want time.Duration }{
		{15 * time.Second, 10 * time.Second, 14 * time.Second},
		{time.Second, 700 * time.Millisecond, 700 * time.Millisecond},
		{3 * time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond},
	} {
		l := &leadership{options: LeaderElectionOptions{LeaseDuration: test.lease, RenewDeadline: test.renew}}
		if got := l.end(renewed).Sub(renewed); got != test.want {
			t.Errorf("writes of a lease of %v with a renew deadline of %v end after %v, want %v", test.lease, test.renew, got, test.want)
		}
	}
}

func TestLeaseIsKeptWhileWorkersRun(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(t, client, "a", func(context.Context, context.Context) error { return errWorkersLeft })
		if err := <-a.ended; !errors.Is(err, errWorkersLeft) {
			t.Errorf("error = %v", err)
		}
		if got := holder(t, client); got != "a" {
			t.Errorf("the lease is held by %q, want a", got)
		}
		a.stop()
	})
}

func TestReleaseRetriesConflicts(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		conflicts := 0
		client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			lease, ok := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			if ok && ptr.Deref(lease.Spec.HolderIdentity, "") == "" && conflicts < 2 {
				conflicts++
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, lease.Name, nil)
			}
			return false, nil, nil
		})
		a := newCandidate(t, client, "a", drains(0))
		synctest.Wait()
		a.stop()
		if err := <-a.ended; err != nil {
			t.Errorf("a: %v", err)
		}
		if got := holder(t, client); got != "" || conflicts != 2 {
			t.Errorf("after %d conflicts the lease is held by %q", conflicts, got)
		}
	})
}

func TestWithoutLeaderElection(t *testing.T) {
	client := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		leads := false
		l := newLeadership(LeaderElectionOptions{}, "a", client.CoordinationV1(), func(b bool) { leads = b })
		stop, cancel := context.WithCancel(t.Context())
		err := l.run(stop, func(stop, lead context.Context) error {
			cancel()
			if stop.Err() == nil || lead.Err() != nil || !leads {
				t.Errorf("stop %v, lead %v, leading %v", stop.Err(), lead.Err(), leads)
			}
			return errEndedEarly
		})
		if !errors.Is(err, errEndedEarly) || leads {
			t.Errorf("error = %v, leading %v", err, leads)
		}
	})
	if actions := client.Actions(); len(actions) != 0 {
		t.Errorf("requests: %v", actions)
	}
}

func TestCheckLease(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	tests := []struct {
		name        string
		get, create error
		want        string
	}{
		{name: "exists"},
		{name: "can be created", get: apierrors.NewNotFound(leases, "x")},
		{name: "is created by another meanwhile", get: apierrors.NewNotFound(leases, "x"), create: apierrors.NewAlreadyExists(leases, "x")},
		{
			name: "no namespace", get: apierrors.NewNotFound(leases, "x"),
			create: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "demoapp-system"),
			want:   `the namespace "demoapp-system" of the lease does not exist: create it`,
		},
		{
			name: "not allowed", get: apierrors.NewForbidden(leases, "x", errors.New("RBAC")),
			want: "the lease demoapp-system/demoapp-controller cannot be kept: ",
		},
		{
			name: "other", get: apierrors.NewBadRequest("odd"),
			want: "checking the lease demoapp-system/demoapp-controller: odd",
		},
		{
			name: "no answer", get: apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", leases, "x", "", 0, false),
			want: "checking the lease ",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset()
			synctest.Test(t, func(t *testing.T) {
				react := func(err error) clienttesting.ReactionFunc {
					return func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, &coordinationv1.Lease{}, err
					}
				}
				client.PrependReactor("get", "leases", react(test.get))
				client.PrependReactor("create", "leases", react(test.create))
				err := checkLease(t.Context(), client.CoordinationV1(), leaseOptions)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("checkLease() = %v", err)
				case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
					t.Errorf("checkLease() = %v, want %s", err, test.want)
				}
			})
		})
	}
}
