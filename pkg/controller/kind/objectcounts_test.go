// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
)

const many = 5000

// fleetOf returns a loop with n cached objects, all of them ready and each fifth suspended.
func fleetOf(tb testing.TB, n int) *Loop[*v1alpha1.DemoAppCluster, v1alpha1.DemoAppClusterStatus] {
	tb.Helper()
	cached := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range n {
		object := &v1alpha1.DemoAppCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("web-%d", i), Generation: 1}}
		object.Status.Conditions = []metav1.Condition{
			{Type: "Initialized", Status: metav1.ConditionTrue, ObservedGeneration: 1},
			{Type: "Deployed", Status: metav1.ConditionTrue, ObservedGeneration: 1},
			{Type: apimeta.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1},
		}
		if i%5 == 0 {
			object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: "Suspended", Status: metav1.ConditionTrue})
		}
		if err := cached.Add(object); err != nil {
			tb.Fatal(err)
		}
	}
	return &Loop[*v1alpha1.DemoAppCluster, v1alpha1.DemoAppClusterStatus]{
		queue:  controller.New(nil, controller.Options{Name: "clusters"}),
		cached: controller.Scoped[*v1alpha1.DemoAppCluster]{metav1.NamespaceAll: cached},
		kind: Definition[*v1alpha1.DemoAppCluster, v1alpha1.DemoAppClusterStatus]{
			Status:     func(c *v1alpha1.DemoAppCluster) *v1alpha1.DemoAppClusterStatus { return &c.Status },
			Conditions: func(s *v1alpha1.DemoAppClusterStatus) *[]metav1.Condition { return &s.Conditions },
			Gates: []Gate{
				{Name: "suspend", Condition: "Suspended", Status: metav1.ConditionTrue},
				{Name: "window", Condition: "UpgradeHeld", Status: metav1.ConditionTrue, Reasons: []string{"OutsideWindow"}},
			},
		},
	}
}

// TestObjectCountsAllocateNothingPerObject holds that a scrape of many objects is no load for the
// garbage collector.
func TestObjectCountsAllocateNothingPerObject(t *testing.T) {
	loop := fleetOf(t, many)

	allocations := testing.AllocsPerRun(10, func() {
		counts, known := loop.countObjects()
		if !known || counts.States[controller.StateReady] != many || counts.Held["suspend"] != many/5 {
			t.Fatalf("counts are %v, %t", counts, known)
		}
	})

	if allocations > 50 {
		t.Errorf("%v allocations for %d objects", allocations, many)
	}
}

// BenchmarkObjectCounts measures a scrape of 5,000 objects of one kind.
func BenchmarkObjectCounts(b *testing.B) {
	loop := fleetOf(b, many)
	for b.Loop() {
		loop.countObjects()
	}
}

func TestFirstReady(t *testing.T) {
	ready := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: apimeta.ConditionReady, Status: status}}
	}
	none, no, yes := []metav1.Condition(nil), ready(metav1.ConditionFalse), ready(metav1.ConditionTrue)
	tests := []struct {
		name string
		// writes are the conditions of an object over time.
		writes [][]metav1.Condition
		want   int
	}{
		{"at once", [][]metav1.Condition{none, yes}, 1},
		{"after a while", [][]metav1.Condition{none, no, no, yes}, 1},
		{"again", [][]metav1.Condition{none, no, yes, no, yes}, 1},
		{"first status without Ready", [][]metav1.Condition{none, none, yes}, 1},
		{"begun by an earlier process", [][]metav1.Condition{no, yes, no, yes}, 0},
		{"ready before", [][]metav1.Condition{yes, no, yes}, 0},
		{"CRD that drops conditions", [][]metav1.Condition{none, none, none}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var first firstReady
			object := &metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1", CreationTimestamp: metav1.NewTime(time.Unix(0, 0))}
			got := 0
			for i := range test.writes[1:] {
				if first.wrote(object, test.writes[i], test.writes[i+1]) {
					got++
				}
			}
			if got != test.want {
				t.Errorf("measured %d times, want %d", got, test.want)
			}
			first.pending.Forget(cache.MetaObjectToName(object))
			if _, pending := first.pending.Get(cache.MetaObjectToName(object)); pending {
				t.Error("the object is not forgotten")
			}
		})
	}
}
