// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

// olderReleases is an Observer of releases with an older chart.
type olderReleases struct{ Observer }

// Observe implements release.Observer.
func (olderReleases) Observe(context.Context, cache.ObjectName, helm.Baseline) (helm.Snapshot, error) {
	return helm.Snapshot{Record: &record.Record{Revision: 1, Own: true, Inputs: "inputs", ChartDigest: "older"}}, nil
}

// discarding is a queue that drops its keys.
type discarding struct{}

// Enqueue implements the queue of a fleet.
func (discarding) Enqueue(cache.ObjectName, controller.Reason) {}

// Shards implements the queue of a fleet.
func (discarding) Shards() *controller.Shards { return nil }

// EnqueueAfter implements the queue of a fleet.
func (discarding) EnqueueAfter(cache.ObjectName, time.Duration, controller.Reason) {}

// upgradeOf is what a gate decides on when an upgrade to other inputs is next.
func upgradeOf(t *testing.T, key cache.ObjectName, change ...func(*sample)) GateInput {
	t.Helper()
	next := helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}
	return GateInput{
		Facts: Facts{
			Key: key, Generation: 1, Now: began, Digest: "inputs",
			Desired: Desired{Known: true, Release: helm.Release{Chart: chartVersion(t, "1.1.0")}},
		},
		Plan:   Plan{Next: next, Decision: next, Observed: helm.Snapshot{Record: &record.Record{Revision: 1, Own: true, Inputs: "older", ChartDigest: "older"}}},
		Status: &newSample(append([]func(*sample){func(s *sample) { s.Generation = 1 }, condition(releasev1alpha1.ConditionDeployed, "True", releasev1alpha1.ReasonInstallSucceeded)}, change...)...).Status,
	}
}

// newTestFleet returns a fleet of these objects, which all have an older chart. upgrade
// evaluates the gate for one of them, and returns the reasons and messages of its blockers.
func newTestFleet(t *testing.T, queue rollout.ObjectQueue, limits rollout.Limits, objects ...cache.ObjectName) (f *fleet, upgrade func(cache.ObjectName) []string) {
	t.Helper()
	f = newFleet(queue, olderReleases{}, "Samples", Rollout{Chart: chartVersion(t, "1.1.0")})
	f.turns = rollout.NewFleet(queue, "Samples", limits,
		func(key cache.ObjectName) (rollout.Member, bool) { return f.member(fleetObject{Key: key}), true },
		func() (found []rollout.Member) {
			for _, key := range objects {
				found = append(found, f.member(fleetObject{Key: key}))
			}
			return found
		})
	return f, func(key cache.ObjectName) (held []string) {
		for _, blocker := range f.Gate(t.Context(), upgradeOf(t, key)).Blockers {
			held = append(held, blocker.Reason+": "+blocker.Message)
		}
		return held
	}
}

// TestNamespaceLeavesTurnsToOthers checks that the objects of one namespace do not hold all turns,
// although the objects of the other namespace ask later.
func TestNamespaceLeavesTurnsToOthers(t *testing.T) {
	late := cache.NewObjectName("late", "a")
	slow := []cache.ObjectName{{Namespace: "slow", Name: "a"}, {Namespace: "slow", Name: "b"}, {Namespace: "slow", Name: "c"}, {Namespace: "slow", Name: "d"}}
	r, upgrade := newTestFleet(t, discarding{}, rollout.Limits{Active: 4}, append(slow, late)...)
	for _, key := range slow {
		upgrade(key)
	}
	expect.Equal(t, "counts", rollout.Counts{Active: 2, Queued: 2}, r.Counts())

	expect.Equal(t, "blockers in the other namespace", []string(nil), upgrade(late))
}

func TestHaltTellsItsExtent(t *testing.T) {
	bad, good := cache.NewObjectName("bad", "a"), cache.NewObjectName("good", "a")
	r, upgrade := newTestFleet(t, discarding{}, rollout.Limits{Failed: 2})
	r.turns.Set(cache.NewObjectName("bad", "1"), rollout.Failed)
	r.turns.Set(cache.NewObjectName("bad", "2"), rollout.Failed)
	message := func(held []string, want string) {
		t.Helper()
		if len(held) != 1 || !strings.HasPrefix(held[0], releasev1alpha1.ReasonRolloutHalted) || !strings.Contains(held[0], want) {
			t.Errorf("blockers are %q, want one with %q", held, want)
		}
	}

	message(upgrade(bad), "since at least 2 Samples of this namespace have failed with it")
	expect.Equal(t, "blockers in another namespace", []string(nil), upgrade(good))

	r.turns.Set(good, rollout.Failed)
	message(upgrade(cache.NewObjectName("third", "a")), "since Samples of at least 2 namespaces have failed with it")
}

// TestHaltOfClusterScopedObjects: objects without a namespace are all in one.
func TestHaltOfClusterScopedObjects(t *testing.T) {
	r, upgrade := newTestFleet(t, discarding{}, rollout.Limits{Failed: 1})
	r.turns.Set(cache.NewObjectName("", "bad"), rollout.Failed)
	expect.Contains(t, "blockers", fmt.Sprint(upgrade(cache.NewObjectName("", "good"))), "since Samples of at least 1 namespaces have failed")
}

// sharded is a queue of a process with shards.
type sharded struct {
	discarding

	shards *controller.Shards
}

// Shards implements the queue of a fleet.
func (s sharded) Shards() *controller.Shards { return s.shards }

// TestFailuresOfOtherReplicasHalt: failed objects of other replicas' shards halt the rollout of
// this replica, and do not count twice when it takes their shard.
func TestFailuresOfOtherReplicasHalt(t *testing.T) {
	shards, in := controller.NewShards(2), map[int][]string{}
	for i := 0; len(in[0]) < 1 || len(in[1]) < 2; i++ {
		namespace := fmt.Sprint("ns", i)
		in[shards.Of(namespace)] = append(in[shards.Of(namespace)], namespace)
	}
	shards.Open(t.Context(), 0)
	first, second := cache.NewObjectName(in[0][0], "a"), cache.NewObjectName(in[0][0], "b")
	r, upgrade := newTestFleet(t, sharded{shards: shards}, rollout.Limits{Failed: 2})
	follow := func(namespace string, failures *releasev1alpha1.FailureCounts) {
		r.turns.Follow(r.member(fleetObject{Key: cache.NewObjectName(namespace, "a"), Generation: 1, Status: releasev1alpha1.ReleaseStatus{
			DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 1, ChartVersion: "0.9.0"}, LastGoodRevision: 1, Failures: failures,
		}}))
	}
	failed := &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: r.chart.Digest()}

	follow(in[1][0], failed)
	expect.Equal(t, "blockers after one failure", []string(nil), upgrade(first))
	follow(in[1][1], failed)
	expect.Contains(t, "blockers after failures in two namespaces", fmt.Sprint(upgrade(second)), releasev1alpha1.ReasonRolloutHalted)
	expect.Equal(t, "counts", rollout.Counts{Active: 1, Queued: 1, Halted: true}, r.Counts())
	follow(in[1][1], nil)
	expect.Equal(t, "blockers after a recovery", []string(nil), upgrade(second))

	follow(in[1][1], failed)
	shards.Open(t.Context(), 1)
	r.turns.Set(cache.NewObjectName(in[1][0], "a"), rollout.Settled)
	follow(in[1][0], failed)
	expect.Equal(t, "counts after a pass over a taken object", rollout.Counts{Active: 2}, r.Counts())
}

// TestRolloutFollowsObjects: an object counts while it has the change and is not healthy. A pass
// that observed nothing leaves a failure as it is, and a deletion ends it.
func TestRolloutFollowsObjects(t *testing.T) {
	r, _ := newTestFleet(t, discarding{}, rollout.Limits{Active: 1, Failed: 1})
	in := upgradeOf(t, key, condition(releasev1alpha1.ConditionFailed, "True", releasev1alpha1.ReasonUpgradeFailed))
	r.turns.Set(key, rollout.Failed)

	r.Settle(in.Facts, Plan{Next: helm.Decision{}}, *in.Status, false)
	expect.Equal(t, "counts after a pass without a record", rollout.Counts{Failed: 1, Halted: true}, r.Counts())
	r.Forget(key)
	expect.Equal(t, "counts after a deletion", rollout.Counts{}, r.Counts())
	r.Settle(in.Facts, in.Plan, newSample().Status, false)
	expect.Equal(t, "counts with an older chart", rollout.Counts{}, r.Counts())
}

// TestHeldByRolloutNamesItsCondition: metrics count what the rollout holds by the condition that it
// sets.
func TestHeldByRolloutNamesItsCondition(t *testing.T) {
	r, _ := newTestFleet(t, discarding{}, rollout.Limits{Failed: 1})
	r.turns.Set(cache.NewObjectName("bad", "a"), rollout.Failed)
	gate, c := heldByRollout(), r.Gate(t.Context(), upgradeOf(t, key)).Condition
	expect.Equal(t, "condition", gate.Condition+" "+string(gate.Status), c.Type+" "+string(c.Status))
	expect.Contains(t, "reasons", fmt.Sprint(gate.Reasons), c.Reason)
}
