// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

// olderReleases is an Observer of releases with an older chart.
type olderReleases struct{ release.Observer }

// Observe implements release.Observer.
func (olderReleases) Observe(context.Context, cache.ObjectName, helm.Baseline) (helm.Snapshot, error) {
	return helm.Snapshot{Record: &record.Record{Revision: 1, Own: true, Inputs: "inputs", ChartDigest: "older"}}, nil
}

// discarding is a queue that drops its keys.
type discarding struct{}

// Enqueue implements the queue of RolloutConfig.
func (discarding) Enqueue(cache.ObjectName, controller.Reason) {}

// Shards implements the queue of RolloutConfig.
func (discarding) Shards() *controller.Shards { return nil }

// EnqueueAfter implements the queue of RolloutConfig.
func (discarding) EnqueueAfter(cache.ObjectName, time.Duration, controller.Reason) {}

// newRollout returns a rollout to these objects, which all have an older chart. upgrade
// evaluates the gate for one of them, and returns its verdict.
func newRollout(t *testing.T, limits rollout.Limits, objects ...cache.ObjectName) (r *Rollout, upgrade func(cache.ObjectName) release.Verdict) {
	t.Helper()
	r = NewRollout(RolloutConfig{
		Chart: testChart(t, "1.0.0"), Plural: "Samples", Limits: limits, Observer: olderReleases{}, Queue: discarding{},
		Objects: func() (found []RolloutObject) {
			for _, key := range objects {
				found = append(found, RolloutObject{Key: key})
			}
			return found
		},
	})
	return r, func(key cache.ObjectName) release.Verdict {
		in := inputOf(t, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}, releasev1alpha1.ReleasePolicy{},
			condition(releasev1alpha1.ConditionDeployed, "True", releasev1alpha1.ReasonInstallSucceeded),
			func(s *sample) { s.Status.Conditions[0].ObservedGeneration = 1 })
		in.Key, in.Plan.Observed.Record.ChartDigest = key, "older"
		return r.Gate(t.Context(), in)
	}
}

// TestNamespaceLeavesTurnsToOthers checks that the objects of one namespace do not hold all
// turns, although those of the other namespace ask later.
func TestNamespaceLeavesTurnsToOthers(t *testing.T) {
	late := cache.NewObjectName("late", "a")
	slow := []cache.ObjectName{{Namespace: "slow", Name: "a"}, {Namespace: "slow", Name: "b"}, {Namespace: "slow", Name: "c"}, {Namespace: "slow", Name: "d"}}
	r, upgrade := newRollout(t, rollout.Limits{Active: 4}, append(slow, late)...)
	for _, key := range slow {
		upgrade(key)
	}
	expect.Equal(t, "counts", rollout.Counts{Active: 2, Queued: 2}, r.Counts())

	verdict := upgrade(late)

	expect.Equal(t, "verdict in the other namespace", summary{}, summaryOf(verdict))
}

func TestHaltTellsItsExtent(t *testing.T) {
	bad, good := cache.NewObjectName("bad", "a"), cache.NewObjectName("good", "a")
	r, upgrade := newRollout(t, rollout.Limits{Failed: 2})
	r.queue.Set(cache.NewObjectName("bad", "1"), rollout.Failed)
	r.queue.Set(cache.NewObjectName("bad", "2"), rollout.Failed)
	message := func(verdict release.Verdict, want string) {
		t.Helper()
		if len(verdict.Blockers) != 1 || verdict.Blockers[0].Reason != releasev1alpha1.ReasonRolloutHalted ||
			!strings.Contains(verdict.Blockers[0].Message, want) {
			t.Errorf("blockers are %+v, want one with %q", verdict.Blockers, want)
		}
	}

	message(upgrade(bad), "since at least 2 Samples of this namespace have failed with it")
	expect.Equal(t, "verdict in another namespace", summary{}, summaryOf(upgrade(good)))

	r.queue.Set(good, rollout.Failed)
	message(upgrade(cache.NewObjectName("third", "a")), "since Samples of at least 2 namespaces have failed with it")
}

// sharded is a queue of a process with shards.
type sharded struct {
	discarding

	shards *controller.Shards
}

// Shards implements the queue of RolloutConfig.
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
	r, upgrade := newRollout(t, rollout.Limits{Failed: 2})
	r.config.Queue = sharded{shards: shards}
	follow := func(namespace string, failures *releasev1alpha1.FailureCounts) {
		r.FollowElsewhere(RolloutObject{Key: cache.NewObjectName(namespace, "a"), Generation: 1, Status: releasev1alpha1.ReleaseStatus{
			DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 1, ChartVersion: "0.9.0"}, LastGoodRevision: 1, Failures: failures,
		}})
	}
	failed := &releasev1alpha1.FailureCounts{Consecutive: 1, Generation: 1, Chart: r.config.Chart.Digest()}

	follow(in[1][0], failed)
	expect.Equal(t, "verdict after one failure", summary{}, summaryOf(upgrade(first)))
	follow(in[1][1], failed)
	if verdict := upgrade(second); len(verdict.Blockers) != 1 || verdict.Blockers[0].Reason != releasev1alpha1.ReasonRolloutHalted {
		t.Errorf("blockers after failures in two namespaces are %+v, want %s", verdict.Blockers, releasev1alpha1.ReasonRolloutHalted)
	}
	expect.Equal(t, "counts", rollout.Counts{Active: 1, Queued: 1, Halted: true}, r.Counts())
	follow(in[1][1], nil)
	expect.Equal(t, "verdict after a recovery", summary{}, summaryOf(upgrade(second)))

	follow(in[1][1], failed)
	shards.Open(t.Context(), 1)
	r.queue.Set(cache.NewObjectName(in[1][0], "a"), rollout.Settled)
	follow(in[1][0], failed)
	expect.Equal(t, "counts after a pass over a taken object", rollout.Counts{Active: 2}, r.Counts())
}
