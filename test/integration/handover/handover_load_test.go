// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// Goals for a hand-over with the default flags of the leader election.
const (
	// afterTermination is the longest time between SIGTERM to the leader and the first write of the
	// standby.
	afterTermination = 5 * time.Second
	// afterKill is the same for SIGKILL.
	afterKill = 20 * time.Second
	// renewDeadline is the default of --leader-elect-renew-deadline, and retryPeriod the default of
	// --leader-elect-retry-period.
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

const (
	// awayFor is the time for which the API server is away.
	awayFor = time.Minute
	// afterReturn is the longest time between the return of the API server and the first write.
	// client-go retries broken watches at intervals of up to 30 s, which jitter doubles. The
	// standby acquires the lease before.
	afterReturn = time.Minute
	// inFlight is the time that one operation may take to end. Each begins before the loss of the
	// lease.
	inFlight = 2 * time.Second
	// clockSkew is the difference between the clocks of two processes.
	clockSkew = 30 * time.Second
	// logDelay is the time from the start of a pass to its log line.
	logDelay = 500 * time.Millisecond
)

const (
	// loadInterval is the time between two changes of the load. Several operations are in flight at
	// any moment.
	loadInterval = 100 * time.Millisecond
	// awayInterval is the same while the API server is away, which adds up for a minute.
	awayInterval = 250 * time.Millisecond
)

// leaseFlags returns flags of the leader election. The goals are for the defaults. Short tests have
// no goals and run in parallel, so their leaders are busy for longer.
func leaseFlags() []string {
	if testing.Short() {
		return cluster.PatientLease
	}
	return cluster.DefaultLease
}

// pair is a leader and a standby under load.
type pair struct {
	leader, standby *cluster.Operator
	load            *load
}

// newPair starts a leader, a standby and the load. It returns when the leader has worked on the
// load for a while.
func newPair(t *testing.T, leader, standby cluster.Launch, interval time.Duration) pair {
	t.Helper()
	installWebsites(t)
	ns := apps.NewExclusive(t, shared)
	var p pair
	p.leader = leader.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	cluster.AwaitLead(t, p.leader)
	p.standby = standby.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	if led, err := p.standby.Leads(t.Context()); err != nil || led {
		t.Errorf("the standby leads beside the leader (%v)", err)
	}
	p.load = startLoad(t, ns, interval)
	const busy = 100
	cluster.Eventually(t.Context(), t, "leader at work", func(context.Context) (bool, error) {
		return len(writes(t, p.leader)) > busy, nil
	})
	return p
}

// writes returns the requests by which a process changed objects, without those for its lease.
func writes(t *testing.T, operator *cluster.Operator) []cluster.AuditEvent {
	t.Helper()
	byProcess := cluster.ByProcess(operator)
	requests, err := shared.AuditRequests(time.Time{}, func(event cluster.AuditEvent) bool {
		return byProcess(event) && event.IsWrite() && event.Resource != "leases"
	})
	if err != nil {
		t.Fatal(err)
	}
	// The audit log has requests in the order in which they ended.
	slices.SortStableFunc(requests, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
	return requests
}

// awaitTakeover waits for the first write of next, and asserts that it came after the answer to the
// last write of the leader before, which has ended. It returns the time from begin to that write.
func awaitTakeover(t *testing.T, begin time.Time, before, next *cluster.Operator) time.Duration {
	t.Helper()
	cluster.Eventually(t.Context(), t, "next leader at work", func(context.Context) (bool, error) {
		return len(writes(t, next)) > 0, nil
	})
	first := writes(t, next)[0]
	for _, late := range writes(t, before) {
		if late.Completed.After(first.Received) {
			t.Errorf("two at work: the first write of the next leader was at %s; the leader before wrote: %s",
				first.Received.Format(time.StampMilli), apps.Describe([]cluster.AuditEvent{late}))
		}
	}
	return first.Received.Sub(begin)
}

// lastWrite returns the time from begin to the last write of a process that has ended.
func lastWrite(t *testing.T, begin time.Time, operator *cluster.Operator) time.Duration {
	t.Helper()
	all := writes(t, operator)
	return all[len(all)-1].Received.Sub(begin)
}

// assertWithin asserts a time limit, unless the tests are short: short tests run in parallel, which
// delays a process.
func assertWithin(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	t.Logf("%s: %.1f s, goal %.0f s", what, took.Seconds(), most.Seconds())
	if took > most && !testing.Short() {
		t.Errorf("%s: %s, want at most %s", what, took, most)
	}
}

func TestHandOverUnderLoadAfterTermination(t *testing.T) {
	p := newPair(t, cluster.Launch{}, cluster.Launch{}, loadInterval)

	begin := time.Now()
	p.leader.StopOrderly(t)

	t.Logf("the leader ended %.1f s after the signal", time.Since(begin).Seconds())
	took := awaitTakeover(t, begin, p.leader, p.standby)
	assertWithin(t, "SIGTERM to the first write of the standby", took, afterTermination)
	t.Logf("the last write of the leader: %.1f s after the signal", lastWrite(t, begin, p.leader).Seconds())
	p.load.Stop()
}

// TestHandOverUnderLoadAfterKill waits until the lease of the killed leader expires.
func TestHandOverUnderLoadAfterKill(t *testing.T) {
	launch := cluster.Launch{Args: leaseFlags()}
	p := newPair(t, launch, launch, loadInterval)

	begin := time.Now()
	p.leader.Kill()

	assertWithin(t, "SIGKILL to the first write of the standby", awaitTakeover(t, begin, p.leader, p.standby), afterKill)
	p.load.Stop()
}

// TestPausedLeaderUnderLoad pauses the leader in the middle of its work until the standby writes.
// When the leader goes on, it ends without another write.
func TestPausedLeaderUnderLoad(t *testing.T) {
	launch := cluster.Launch{Args: leaseFlags()}
	p := newPair(t, launch, launch, loadInterval)

	begin := time.Now()
	p.leader.Pause()
	defer p.leader.Resume() // A paused process cannot be stopped.
	took := awaitTakeover(t, begin, p.leader, p.standby)
	resumed := time.Now()
	p.leader.Resume()

	assertLost(t, begin, p.leader, inFlight)
	assertWithin(t, "SIGSTOP to the first write of the standby", took, afterKill)
	p.load.Stop()
	for _, late := range writes(t, p.leader) {
		if late.Completed.After(resumed) {
			t.Errorf("the paused leader wrote after it was resumed: %s", apps.Describe([]cluster.AuditEvent{late}))
		}
	}
}

func TestTakenLeaseEndsWorkUnderLoad(t *testing.T) {
	p := newPair(t, cluster.Launch{}, cluster.Launch{}, loadInterval)

	begin := time.Now()
	leases := shared.Client.CoordinationV1().Leases(cluster.OperatorNamespace)
	another := []byte(`{"spec": {"holderIdentity": "another-leader", "leaseDurationSeconds": 5}}`)
	if _, err := leases.Patch(t.Context(), cluster.LeaseName, types.MergePatchType, another, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	assertLost(t, begin, p.leader, retryPeriod+inFlight)
	assertWithin(t, "loss of the lease to the first write of the standby", awaitTakeover(t, begin, p.leader, p.standby), afterKill)
	p.load.Stop()
}

// TestUnrenewableLeaseEndsWorkUnderLoad refuses the requests of the leader for the lease. The
// leader has access to all other objects, and the standby to the lease, too. So only the time keeps
// the two from working together. The clock of the leader is behind the clock of the standby by more
// than the lease's duration, but the standby does not take the lease before.
func TestUnrenewableLeaseEndsWorkUnderLoad(t *testing.T) {
	proxy := shared.NewProxy(t)
	leader := cluster.Launch{Proxy: proxy, Args: append([]string{"--logging-format=json", "-v=4"}, leaseFlags()...)}
	proxy.Intercept(shiftLeases(-clockSkew))
	p := newPair(t, leader, cluster.Launch{Args: leaseFlags()}, loadInterval)
	lease, err := shared.Client.CoordinationV1().Leases(cluster.OperatorNamespace).Get(t.Context(), cluster.LeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if behind := time.Since(lease.Spec.RenewTime.Time); behind < clockSkew {
		t.Errorf("the Lease was renewed %s ago, want at least %s", behind, clockSkew)
	}

	begin := time.Now()
	proxy.Refuse(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases/") })

	assertLost(t, begin, p.leader, renewDeadline+inFlight)
	assertWithin(t, "loss of the lease to the begin of the last pass", lastPass(t, p.leader).Sub(begin), renewDeadline+logDelay)
	took := awaitTakeover(t, begin, p.leader, p.standby)
	assertWithin(t, "loss of the lease to the first write of the standby", took, afterKill)
	p.load.Stop()
}

// shiftLeases returns an interceptor that writes Leases like a process whose clock differs from the
// other clocks.
func shiftLeases(by time.Duration) cluster.Interceptor {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if strings.Contains(r.URL.Path, "/leases") && r.Body != nil && r.Method != http.MethodGet {
			if err := shiftLease(r, by); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}
}

// shiftLease changes the times of the Lease in the body of a request.
func shiftLease(r *http.Request, by time.Duration) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var lease coordinationv1.Lease
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &lease); err != nil {
		return err
	}
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(by)
		}
	}
	if body, err = json.Marshal(&lease); err != nil {
		return err
	}
	r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// lastPass returns the time at which the last pass of an operator began. The operator logs JSON
// with verbosity 4.
func lastPass(t *testing.T, operator *cluster.Operator) time.Time {
	t.Helper()
	var last time.Time
	for text := range strings.Lines(operator.Log()) {
		var line struct {
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "Reconciling" {
			last = line.Time
		}
	}
	if last.IsZero() {
		t.Fatal("the log has no passes")
	}
	return last
}

// TestAPIServerAwayUnderLoad takes the API server away from both operators for a minute, while the
// load goes on. The leader ends, because it loses its lease, and is started again at once, like a
// container. No further process ends. In short tests, the API server returns after that.
func TestAPIServerAwayUnderLoad(t *testing.T) {
	proxy := shared.NewProxy(t)
	launch := cluster.Launch{Proxy: proxy, Args: leaseFlags()}
	p := newPair(t, launch, launch, awayInterval)

	begin := time.Now()
	proxy.Disconnect()
	select {
	case <-p.leader.Exited():
	case <-time.After(cluster.DefaultTimeout):
		t.Fatal("the leader continues without its lease")
	}
	t.Logf("the leader ended %.1f s after the disconnection", time.Since(begin).Seconds())
	if code := p.leader.Stop(); code <= 0 {
		t.Errorf("exit code %d, want an error", code)
	}
	restarted := launch.Start(t.Context(), t, shared)
	if !testing.Short() {
		<-time.After(awayFor - time.Since(begin))
	}
	assertRuns(t, p.standby, "standby")
	assertRuns(t, restarted, "restarted leader")
	begin = time.Now()
	proxy.Connect(t.Context())

	var first time.Time
	cluster.Eventually(t.Context(), t, "an operator at work", func(context.Context) (bool, error) {
		all := append(writes(t, p.standby), writes(t, restarted)...)
		if len(all) > 0 {
			first = all[0].Received
		}
		return len(all) > 0, nil
	})
	assertWithin(t, "return of the API server to the first write", first.Sub(begin), afterReturn)
	p.load.Stop()
	if len(writes(t, p.standby)) > 0 && len(writes(t, restarted)) > 0 {
		t.Error("both operators have worked")
	}
	assertRuns(t, p.standby, "standby")
	assertRuns(t, restarted, "restarted leader")
}

func assertRuns(t *testing.T, operator *cluster.Operator, name string) {
	t.Helper()
	select {
	case <-operator.Exited():
		t.Errorf("the %s ended with exit code %d", name, operator.Stop())
	default:
	}
}

// assertLost waits for the end of a leader that has lost its lease, and asserts that the leader
// wrote for at most the time most after begin.
func assertLost(t *testing.T, begin time.Time, leader *cluster.Operator, most time.Duration) {
	t.Helper()
	select {
	case <-leader.Exited():
	case <-time.After(cluster.DefaultTimeout):
		t.Fatal("the leader continues without its lease")
	}
	t.Logf("the leader ended %.1f s after the loss", time.Since(begin).Seconds())
	if code := leader.Stop(); code <= 0 {
		t.Errorf("exit code %d, want an error", code)
	}
	if !strings.Contains(leader.Log(), "lost the lease") {
		t.Error("the log does not say why the leader ended")
	}
	assertWithin(t, "loss of the lease to the last write of the leader", lastWrite(t, begin, leader), most)
}
