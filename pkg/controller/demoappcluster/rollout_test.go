// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// at is a slot in a state, with an app of this generation.
func at(name string, s state, generation int64, ready bool) slot {
	app := &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	if ready {
		app.Status.Conditions = []metav1.Condition{isSo(v1alpha1.ConditionReady, v1alpha1.ReasonHealthy)}
		app.Status.Conditions[0].ObservedGeneration = generation
	}
	if s == stateAbsent || s == stateTaken {
		app = nil
	}
	return slot{node: name, desired: &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name}}, state: s, app: app}
}

func TestDecide(t *testing.T) {
	old := func(name string) slot { return at(name, stateOutdated, 1, true) }
	broken := func(name string) slot { return at(name, stateOutdated, 1, false) }
	done := func(name string) slot { return at(name, stateUpdated, 2, true) }
	underway := func(name string) slot { return at(name, stateUpdated, 2, false) }
	fresh := func(name string) slot { return at(name, stateUpdated, 1, false) }
	held := func(name string, s state, reason string) slot {
		slot := at(name, s, 2, true)
		slot.app.Status.Conditions[0].Status, slot.app.Status.Conditions[0].Reason = metav1.ConditionFalse, reason
		return slot
	}
	tests := []struct {
		name           string
		slots          []slot
		maxUnavailable int
		create, update []string
	}{
		{"nothing to do", []slot{done("a"), done("b")}, 1, nil, nil},
		{"absent ones are made at once", []slot{at("a", stateAbsent, 0, false), at("b", stateAbsent, 0, false)}, 1, []string{"a", "b"}, nil},
		{"names that are taken or not free yet are left alone", []slot{at("a", stateTaken, 0, false), at("b", stateLeaving, 1, true)}, 1, nil, nil},
		{"one at a time", []slot{old("a"), old("b")}, 1, nil, []string{"a"}},
		{"two at a time", []slot{old("a"), old("b"), old("c")}, 2, nil, []string{"a", "b"}},
		{"all at once", []slot{old("a"), old("b")}, 10, nil, []string{"a", "b"}},
		{"one is on its way", []slot{underway("a"), old("b")}, 1, nil, nil},
		{"one of two is on its way", []slot{underway("a"), old("b"), old("c")}, 2, nil, []string{"b"}},
		{"new ones do not count", []slot{fresh("a"), old("b")}, 1, nil, []string{"b"}},
		{"broken ones come first", []slot{old("a"), broken("b"), broken("c")}, 1, nil, []string{"b", "c"}},
		{"broken ones leave room", []slot{old("a"), broken("b")}, 2, nil, []string{"b", "a"}},
		{"a newer chart that waits breaks nothing", []slot{
			held("a", stateOutdated, v1alpha1.ReasonRolloutQueued), held("b", stateOutdated, v1alpha1.ReasonRolloutHalted), held("c", stateUpdated, v1alpha1.ReasonRolloutQueued),
		}, 1, nil, []string{"a"}},
		{"more on their way than may be", []slot{underway("a"), underway("b"), old("c")}, 1, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			extra := []*v1alpha1.DemoApp{{}}
			p := decide(test.slots, extra, test.maxUnavailable)
			equal(t, "created", test.create, nodesOf(p.create))
			equal(t, "updated", test.update, nodesOf(p.update))
			equal(t, "removed", extra, p.remove)
		})
	}
}

func nodesOf(slots []slot) (names []string) {
	for _, s := range slots {
		names = append(names, s.node)
	}
	return names
}

func TestMaxUnavailable(t *testing.T) {
	tests := []struct {
		value   string
		desired int
		want    int
	}{
		{"", 10, 1}, {"3", 10, 3}, {"3", 1, 3}, {"10%", 500, 50}, {"10%", 11, 2}, {"1%", 3, 1}, {"10%", 0, 1}, {"100%", 7, 7}, {"x", 7, 1},
	}
	for _, test := range tests {
		var strategy v1alpha1.UpdateStrategy
		if test.value != "" {
			parsed := intstr.Parse(test.value)
			strategy.MaxUnavailable = &parsed
		}
		if got := maxUnavailable(strategy, test.desired); got != test.want {
			t.Errorf("maxUnavailable(%q, %d) = %d, want %d", test.value, test.desired, got, test.want)
		}
	}
}
