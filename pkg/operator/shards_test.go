// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
)

func TestNextShards(t *testing.T) {
	tests := []struct {
		name         string
		own          map[int]shardStanding
		live         map[string][]int
		busy         []int
		start, leave []int
	}{
		{name: "alone", live: map[string][]int{"a": nil}, start: []int{0, 1, 2, 3, 4, 5}},
		{
			name: "joins", live: map[string][]int{"a": nil, "b": {0, 1, 2, 3, 4, 5}},
		},
		{
			name:  "has more than its share",
			own:   map[int]shardStanding{0: holding, 1: holding, 2: holding, 3: holding, 4: holding, 5: holding},
			live:  map[string][]int{"a": {0, 1, 2, 3, 4, 5}, "b": nil},
			leave: []int{5},
		},
		{
			name: "drains one shard at a time",
			own:  map[int]shardStanding{0: holding, 1: holding, 2: holding, 3: holding, 4: holding, 5: leaving},
			live: map[string][]int{"a": {0, 1, 2, 3, 4, 5}, "b": nil},
		},
		{
			name:  "takes a free shard",
			own:   map[int]shardStanding{5: holding},
			live:  map[string][]int{"a": {5}, "b": {0, 1, 2, 3}},
			start: []int{4},
		},
		{
			name:  "takes no more than its share",
			own:   map[int]shardStanding{5: holding, 4: campaigning},
			live:  map[string][]int{"a": {5}, "b": {0}},
			start: []int{1},
		},
		{
			name:  "another replica begins with the first free shards",
			own:   map[int]shardStanding{3: holding},
			live:  map[string][]int{"a": {3}, "A": {4}},
			start: []int{2, 5},
		},
		{
			name:  "another replica was faster",
			own:   map[int]shardStanding{1: campaigning},
			live:  map[string][]int{"a": nil, "b": {0, 1, 2}},
			start: []int{3, 4, 5}, leave: []int{1},
		},
		{
			name: "shares differ by one at most",
			own:  map[int]shardStanding{0: holding, 1: holding},
			live: map[string][]int{"a": {0, 1}, "b": {2, 3}, "c": {4}, "d": {5}},
		},
		{
			name:  "gives one to a replica that has two less",
			own:   map[int]shardStanding{0: holding, 1: holding},
			live:  map[string][]int{"a": {0, 1}, "A": {2, 3}, "B": {4, 5}, "b": nil},
			leave: []int{1},
		},
		{
			name: "the first of those with most keep them",
			own:  map[int]shardStanding{0: holding, 1: holding},
			live: map[string][]int{"a": {0, 1}, "b": {2, 3}, "c": {4, 5}, "d": nil},
		},
		{
			name:  "takes what a leaving replica has drained",
			own:   map[int]shardStanding{0: holding, 1: holding},
			live:  map[string][]int{"a": {0, 1}, "b": {2, 3}},
			busy:  []int{4},
			start: []int{5},
		},
		{
			name: "keeps the only shard",
			own:  map[int]shardStanding{0: holding},
			live: map[string][]int{"a": {0}, "b": {1}, "c": {2}, "d": {3}, "e": {4}, "f": {5}, "g": nil},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start, leave, _ := nextShards(6, "a", test.own, test.live, test.busy)

			if !slices.Equal(start, test.start) || !slices.Equal(leave, test.leave) {
				t.Errorf("nextShards() = start %v, leave %v, want %v and %v", start, leave, test.start, test.leave)
			}
		})
	}
}

// unreachable refuses requests while a replica is cut off.
type unreachable struct {
	coordinationv1client.LeasesGetter

	isCutOff *atomic.Bool
}

func (u unreachable) Leases(namespace string) coordinationv1client.LeaseInterface {
	return unreachableLease{u.LeasesGetter.Leases(namespace), u.isCutOff}
}

type unreachableLease struct {
	coordinationv1client.LeaseInterface

	isCutOff *atomic.Bool
}

var errCutOff = errors.New("cut off")

func (u unreachableLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	if u.isCutOff.Load() {
		return nil, errCutOff
	}
	return u.LeaseInterface.Get(ctx, name, options)
}

func (u unreachableLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if u.isCutOff.Load() {
		return nil, errCutOff
	}
	return u.LeaseInterface.Create(ctx, lease, options)
}

func (u unreachableLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if u.isCutOff.Load() {
		return nil, errCutOff
	}
	return u.LeaseInterface.Update(ctx, lease, options)
}

// replica is one replica with shards.
type replica struct {
	shards   *controller.Shards
	isCutOff atomic.Bool
	held     *prometheus.GaugeVec
	stop     context.CancelFunc
	ended    chan error
}

func newReplica(t *testing.T, client *fake.Clientset, identity string, count int) *replica {
	t.Helper()
	options := leaseOptions
	r := &replica{shards: controller.NewShards(count), ended: make(chan error, 1)}
	group := newReplicas(options, identity, count, unreachable{client.CoordinationV1(), &r.isCutOff})
	r.held = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "held"}, []string{"shard"})
	s := newSharding(group, r.shards, r.held)
	l := newLeadership(options, group.group(), group, func(bool) {})
	var stop context.Context
	stop, r.stop = context.WithCancel(t.Context())
	p := &process{shutdownTimeout: 25 * time.Second}
	go func() {
		r.ended <- l.run(stop, func(stop, lead context.Context) error {
			controllers := make(chan []Controller, 1)
			controllers <- []Controller{{Name: "shards", Run: s.run}}
			return p.supervise(stop, lead, controllers)
		})
	}()
	return r
}

// stopAll stops replicas, one after another.
func stopAll(t *testing.T, replicas map[string]*replica) {
	t.Helper()
	for name, r := range replicas {
		r.stop()
		if err := <-r.ended; err != nil {
			t.Errorf("replica %s: %v", name, err)
		}
	}
}

// awaitShares waits until the replicas hold these numbers of shards. It returns the time that this
// took, and reports a shard that two replicas hold at any time.
func awaitShares(t *testing.T, replicas map[string]*replica, want map[string]int) time.Duration {
	t.Helper()
	begin, got := time.Now(), map[string]int{}
	for time.Since(begin) < time.Minute {
		holders := map[int]string{}
		for _, name := range slices.Sorted(maps.Keys(replicas)) {
			open := replicas[name].shards.Held()
			got[name] = len(open)
			for _, shard := range open {
				if holder := holders[shard]; holder != "" {
					t.Fatalf("shard %d is held by %s and %s", shard, holder, name)
				}
				holders[shard] = name
			}
		}
		if maps.Equal(got, want) {
			return time.Since(begin)
		}
		elapse(50 * time.Millisecond)
		synctest.Wait()
	}
	t.Fatalf("shares (-want +got):\n%s", cmp.Diff(want, got))
	return 0
}

func stampedClient() *fake.Clientset {
	client := fake.NewClientset()
	controllertest.Stamp(client)
	return client
}

func TestReplicasShareShards(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		a := newReplica(t, client, "a", 12)
		replicas := map[string]*replica{"a": a}
		awaitShares(t, replicas, map[string]int{"a": 12})

		b, c := newReplica(t, client, "b", 12), newReplica(t, client, "c", 12)
		replicas["b"], replicas["c"] = b, c
		took := awaitShares(t, replicas, map[string]int{"a": 4, "b": 4, "c": 4})
		t.Logf("balanced %v after two replicas joined", took)
		if series := testutil.CollectAndCount(b.held); series != 12 {
			t.Errorf("a replica with 4 of 12 shards reports %d", series)
		}
		for shard := range 12 {
			holders := 0.0
			for _, r := range replicas {
				holders += testutil.ToFloat64(r.held.WithLabelValues(fmt.Sprint(shard)))
			}
			if holders != 1 {
				t.Errorf("by the metrics, %v replicas hold shard %d", holders, shard)
			}
		}

		c.isCutOff.Store(true)
		took = awaitShares(t, replicas, map[string]int{"a": 6, "b": 6, "c": 0})
		t.Logf("balanced %v after a replica was cut off", took)
		if took > 20*time.Second {
			t.Errorf("the shards of a dead replica are taken after %v", took)
		}
		if err := <-c.ended; !errors.Is(err, errLeaseLost) {
			t.Errorf("the replica that was cut off ended with %v", err)
		}

		b.stop()
		took = awaitShares(t, replicas, map[string]int{"a": 12, "b": 0, "c": 0})
		t.Logf("balanced %v after a replica was stopped", took)
		if took > 5*time.Second {
			t.Errorf("the shards of a stopped replica are taken after %v", took)
		}
		if err := <-b.ended; err != nil {
			t.Errorf("the stopped replica ended with %v", err)
		}
		a.stop()
		if err := <-a.ended; err != nil {
			t.Errorf("the last replica ended with %v", err)
		}
		if got := holder(t, client); got != "" {
			t.Errorf("after the last replica, the lease is held by %q", got)
		}
	})
}

// TestReplicasStartTogether: no replica is left without a share, whatever the order of the
// requests.
func TestReplicasStartTogether(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		replicas := map[string]*replica{}
		for _, name := range []string{"a", "b", "c"} {
			replicas[name] = newReplica(t, client, name, 12)
		}
		took := awaitShares(t, replicas, map[string]int{"a": 4, "b": 4, "c": 4})
		t.Logf("balanced after %v", took)
		stopAll(t, replicas)
	})
}

// TestJoiningReplicaGetsItsShare: a replica gets shards although no other one has more than the
// average, rounded up. The giving replicas give back no more than needed.
func TestJoiningReplicaGetsItsShare(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		replicas := map[string]*replica{}
		for _, name := range []string{"a", "b", "c", "d"} {
			replicas[name] = newReplica(t, client, name, 12)
		}
		awaitShares(t, replicas, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3})

		replicas["e"] = newReplica(t, client, "e", 12)

		took := awaitShares(t, replicas, map[string]int{"a": 3, "b": 3, "c": 2, "d": 2, "e": 2})
		t.Logf("balanced after %v", took)
		stopAll(t, replicas)
	})
}

// TestDrainedShardWaitsForPass: a shard stays with its replica until its last pass has ended.
func TestDrainedShardWaitsForPass(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		a := newReplica(t, client, "a", 2)
		replicas := map[string]*replica{"a": a}
		awaitShares(t, replicas, map[string]int{"a": 2})
		namespace := "b"
		for a.shards.Of(namespace) != 1 {
			namespace += "b"
		}
		_, end, ok := a.shards.Begin(t.Context(), namespace)
		if !ok {
			t.Fatal("no pass can begin")
		}
		b := newReplica(t, client, "b", 2)
		replicas["b"] = b
		elapse(time.Minute)
		synctest.Wait()
		if got := a.shards.Held(); len(got) != 2 || len(b.shards.Held()) != 0 {
			t.Fatalf("during a pass, the first replica holds %v, the second %v", got, b.shards.Held())
		}
		if _, _, ok := a.shards.Begin(t.Context(), namespace); ok {
			t.Error("a pass begins in a shard that is drained")
		}

		end()

		took := awaitShares(t, replicas, map[string]int{"a": 1, "b": 1})
		t.Logf("handed over %v after the last pass", took)
		if took > leaseOptions.RetryPeriod/looks+100*time.Millisecond {
			t.Errorf("the drained shard is taken after %v", took)
		}
		stopAll(t, replicas)
	})
}

// TestLeavingReplicaIsBusy: a replica that ends still makes a pass in one shard. Another replica
// takes the remaining shards meanwhile.
func TestLeavingReplicaIsBusy(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		a := newReplica(t, client, "a", 4)
		replicas := map[string]*replica{"a": a}
		awaitShares(t, replicas, map[string]int{"a": 4})
		replicas["b"] = newReplica(t, client, "b", 4)
		awaitShares(t, replicas, map[string]int{"a": 2, "b": 2})
		namespace := "b"
		for a.shards.Of(namespace) != a.shards.Held()[0] {
			namespace += "b"
		}
		_, end, ok := a.shards.Begin(t.Context(), namespace)
		if !ok {
			t.Fatal("no pass can begin")
		}

		a.stop()

		took := awaitShares(t, replicas, map[string]int{"a": 1, "b": 3})
		t.Logf("taken %v after the signal", took)
		if took > leaseOptions.RetryPeriod {
			t.Errorf("the drained shard is taken after %v", took)
		}
		end()
		awaitShares(t, replicas, map[string]int{"a": 0, "b": 4})
		stopAll(t, replicas)
	})
}

// TestLeasedShards: a shard that waits for its caches is reported, so that no other replica
// campaigns for it.
func TestLeasedShards(t *testing.T) {
	r := newReplicas(leaseOptions, "a", 4, fake.NewClientset().CoordinationV1())
	s := newSharding(r, controller.NewShards(4), nil)
	s.shards.Open(t.Context(), 2)
	s.own = map[int]shardStanding{0: campaigning, 1: holding, 2: holding}

	if got := r.held(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v", got)
	}
}

// TestOtherNumberOfShardsWaits: a replica with another number of shards, and a process without
// shards, wait until the last replica has gone.
func TestOtherNumberOfShardsWaits(t *testing.T) {
	client := stampedClient()
	synctest.Test(t, func(t *testing.T) {
		old := newReplica(t, client, "old", 2)
		awaitShares(t, map[string]*replica{"old": old}, map[string]int{"old": 2})
		others := map[string]*replica{"new": newReplica(t, client, "new", 3)}
		alone := newCandidate(t, client, "alone", drains(0))
		elapse(time.Minute)
		synctest.Wait()
		if got := others["new"].shards.Held(); len(got) > 0 || alone.leads.Load() {
			t.Fatalf("beside two shards, the replica with three holds %v, the process without shards leads: %v", got, alone.leads.Load())
		}
		alone.stop()
		if err := <-alone.ended; err != nil {
			t.Error(err)
		}

		old.stop()

		took := awaitShares(t, others, map[string]int{"new": 3})
		t.Logf("taken %v after the signal", took)
		stopAll(t, others)
	})
}

// TestTakenShardIsDrained: another client takes the Lease of one shard. The replica keeps its
// remaining shards.
func TestTakenShardIsDrained(t *testing.T) {
	for name, isBusy := range map[string]bool{"idle": false, "during a pass": true} {
		t.Run(name, func(t *testing.T) {
			client := stampedClient()
			synctest.Test(t, func(t *testing.T) {
				a := newReplica(t, client, "a", 3)
				replicas := map[string]*replica{"a": a}
				awaitShares(t, replicas, map[string]int{"a": 3})
				namespace := "b"
				for a.shards.Of(namespace) != 2 {
					namespace += "b"
				}
				if isBusy {
					if _, _, ok := a.shards.Begin(t.Context(), namespace); !ok {
						t.Fatal("no pass can begin")
					}
				}
				var drained atomic.Bool
				a.shards.Watch(func(controller.InShard) {}, func(in controller.InShard) {
					if in(namespace) {
						drained.Store(true)
					}
				})
				leases := client.CoordinationV1().Leases(leaseOptions.ResourceNamespace)
				lease, err := leases.Get(t.Context(), shardLeaseName(leaseOptions, 2), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				lease.Spec.HolderIdentity = ptr.To("thief")
				if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}

				if isBusy {
					if err := <-a.ended; !errors.Is(err, errLeaseTaken) || !errors.Is(err, errWorkersLeft) {
						t.Errorf("the replica ended with %v, want %v", err, errLeaseTaken)
					}
					return
				}
				// The thief is no replica, so the shard is taken back.
				elapse(leaseOptions.RetryPeriod)
				synctest.Wait()
				awaitShares(t, replicas, map[string]int{"a": 3})
				if !drained.Load() {
					t.Error("the shard was not drained")
				}
				a.stop()
				if err := <-a.ended; err != nil {
					t.Errorf("the replica ended with %v", err)
				}
			})
		})
	}
}
