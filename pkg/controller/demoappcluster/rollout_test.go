// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// at is a slot in a state, with an app of this generation.
func at(name string, s state, generation int64, ready bool) slot {
	app := &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	if ready {
		app.Status.Conditions = []metav1.Condition{isSo(apimeta.ConditionReady, apimeta.ReasonHealthy)}
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
	held := func(name string, s state, reason string) slot { return slotOf(name, s, heldApp(reason)) }
	arrived := func(name, reason string) slot {
		return slotOf(name, stateUpdated, heldApp(reason, condition(releasev1alpha1.ConditionDeployed, 2)))
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
			held("a", stateOutdated, releasev1alpha1.ReasonRolloutQueued), held("b", stateOutdated, releasev1alpha1.ReasonRolloutHalted), arrived("c", releasev1alpha1.ReasonRolloutQueued),
		}, 1, nil, []string{"a"}},
		{"held by gates, they change one at a time", []slot{
			held("a", stateOutdated, releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, v1alpha1.ReasonValidationFailed),
			held("c", stateOutdated, releasev1alpha1.ReasonLicenseDenied), held("d", stateOutdated, releasev1alpha1.ReasonLicenseUnavailable),
		}, 1, nil, []string{"a"}},
		{"one that a gate holds back from the template holds the others back", []slot{
			held("a", stateUpdated, releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, releasev1alpha1.ReasonOutsideWindow), old("c"),
		}, 1, nil, nil},
		{"one for which only a newer chart waits for the window does not", []slot{
			arrived("a", releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, releasev1alpha1.ReasonOutsideWindow),
		}, 1, nil, []string{"b"}},
		{"more on their way than may be", []slot{underway("a"), underway("b"), old("c")}, 1, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			extra := []*v1alpha1.DemoApp{{}}
			p := decide(observation{test.slots, extra}, test.maxUnavailable)
			equal(t, "created", test.create, nodesOf(p.create))
			equal(t, "updated", test.update, nodesOf(p.update))
			equal(t, "removed", extra, p.remove)
		})
	}
}

// slotOf is a slot with an app.
func slotOf(name string, s state, app *v1alpha1.DemoApp) slot {
	app.Name = name
	return slot{node: name, desired: &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name}}, state: s, app: app}
}

// heldApp is an app that serves, and that is not ready for a reason.
func heldApp(reason string, others ...metav1.Condition) *v1alpha1.DemoApp {
	ready := condition(apimeta.ConditionReady, 2)
	ready.Status, ready.Reason = metav1.ConditionFalse, reason
	return &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Status: v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{
			DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 3}, LastGoodRevision: 3, Replicas: 2, ReadyReplicas: 2,
			Conditions: append(others, ready),
		}},
	}
}

// condition is a condition that is True at a generation.
func condition(conditionType string, generation int64) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, ObservedGeneration: generation}
}

func TestServing(t *testing.T) {
	none := int32(0)
	with := func(reason string, change func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp {
		app := heldApp(reason, condition(releasev1alpha1.ConditionDeployed, 1))
		change(app)
		return app
	}
	held := func(change func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp {
		return with(releasev1alpha1.ReasonOutsideWindow, change)
	}
	failed := func(conditionType string) func(*v1alpha1.DemoApp) {
		return func(a *v1alpha1.DemoApp) {
			a.Status.Conditions = append(a.Status.Conditions, condition(conditionType, 2))
		}
	}
	as := func(*v1alpha1.DemoApp) {}
	tests := []struct {
		name             string
		app              *v1alpha1.DemoApp
		serving, arrived bool
	}{
		{"nothing known", &v1alpha1.DemoApp{}, false, false},
		{"held", held(as), true, false},
		{"held by something else", with(v1alpha1.ReasonSecretNotFound, as), true, false},
		{"held, deployed as the spec says", held(func(a *v1alpha1.DemoApp) { a.Status.Conditions[0].ObservedGeneration = 2 }), true, true},
		{"of an older spec", held(func(a *v1alpha1.DemoApp) { a.Generation = 3 }), false, false},
		{"never deployed", held(func(a *v1alpha1.DemoApp) { a.Status.DeployedRelease = nil }), false, false},
		{"a pod is not ready", held(func(a *v1alpha1.DemoApp) { a.Status.ReadyReplicas = 1 }), false, false},
		{"no pods", held(func(a *v1alpha1.DemoApp) { a.Status.Replicas, a.Status.ReadyReplicas = 0, 0 }), false, false},
		{"no pods wanted", held(func(a *v1alpha1.DemoApp) {
			a.Spec.ReplicaCount, a.Status.Replicas, a.Status.ReadyReplicas = &none, 0, 0
		}), true, false},
		{"the newest revision was never healthy", held(func(a *v1alpha1.DemoApp) { a.Status.LastGoodRevision = 2 }), false, false},
		{"of an operator that did not tell which was", held(func(a *v1alpha1.DemoApp) { a.Status.LastGoodRevision = 0 }), true, false},
		{"the last attempt failed", held(failed(releasev1alpha1.ConditionFailed)), false, false},
		{"rolled back", held(failed(releasev1alpha1.ConditionRemediated)), false, false},
		{"progressing", with(apimeta.ReasonProgressing, as), false, false},
		{"unhealthy", with(apimeta.ReasonUnhealthy, as), false, false},
		{"not healthy in time", with(releasev1alpha1.ReasonHealthTimeout, as), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "serving", test.serving, isServing(test.app))
			equal(t, "arrived", test.arrived, hasArrived(test.app))
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
