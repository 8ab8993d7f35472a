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
	"github.com/example/demoapp-controller/test/expect"
)

// at returns a slot in a state, with an app of this generation.
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
		{"absent apps are created at once", []slot{at("a", stateAbsent, 0, false), at("b", stateAbsent, 0, false)}, 1, []string{"a", "b"}, nil},
		{"apps of other owners and deleted apps are not changed", []slot{at("a", stateTaken, 0, false), at("b", stateLeaving, 1, true)}, 1, nil, nil},
		{"one at a time", []slot{old("a"), old("b")}, 1, nil, []string{"a"}},
		{"two at a time", []slot{old("a"), old("b"), old("c")}, 2, nil, []string{"a", "b"}},
		{"all at once", []slot{old("a"), old("b")}, 10, nil, []string{"a", "b"}},
		{"one update in progress", []slot{underway("a"), old("b")}, 1, nil, nil},
		{"one of two updates in progress", []slot{underway("a"), old("b"), old("c")}, 2, nil, []string{"b"}},
		{"new apps do not count", []slot{fresh("a"), old("b")}, 1, nil, []string{"b"}},
		{"apps that do not serve come first", []slot{old("a"), broken("b"), broken("c")}, 1, nil, []string{"b", "c"}},
		{"apps that do not serve leave a turn", []slot{old("a"), broken("b")}, 2, nil, []string{"b", "a"}},
		{"apps that wait for a newer chart are available", []slot{
			held("a", stateOutdated, releasev1alpha1.ReasonRolloutQueued), held("b", stateOutdated, releasev1alpha1.ReasonRolloutHalted), arrived("c", releasev1alpha1.ReasonRolloutQueued),
		}, 1, nil, []string{"a"}},
		{"held apps are updated one at a time", []slot{
			held("a", stateOutdated, releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, v1alpha1.ReasonValidationFailed),
			held("c", stateOutdated, releasev1alpha1.ReasonLicenseDenied), held("d", stateOutdated, releasev1alpha1.ReasonLicenseUnavailable),
		}, 1, nil, []string{"a"}},
		{"a held app with the new template is unavailable", []slot{
			held("a", stateUpdated, releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, releasev1alpha1.ReasonOutsideWindow), old("c"),
		}, 1, nil, nil},
		{"a held app that serves the new template is available", []slot{
			arrived("a", releasev1alpha1.ReasonOutsideWindow), held("b", stateOutdated, releasev1alpha1.ReasonOutsideWindow),
		}, 1, nil, []string{"b"}},
		{"more updates in progress than allowed", []slot{underway("a"), underway("b"), old("c")}, 1, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			removed := []extra{{app: &v1alpha1.DemoApp{}}}
			p := decide(observation{slots: test.slots}, removed, test.maxUnavailable)
			expect.Equal(t, "created", test.create, nodesOf(p.create))
			expect.Equal(t, "updated", test.update, nodesOf(p.update))
			expect.Equal(t, "removed", 1, len(p.remove))
		})
	}
}

// slotOf returns a slot with an app.
func slotOf(name string, s state, app *v1alpha1.DemoApp) slot {
	app.Name = name
	return slot{node: name, desired: &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name}}, state: s, app: app}
}

// heldApp returns an app whose pods are ready, and which is not ready for the reason.
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

// condition returns a True condition of a generation.
func condition(conditionType string, generation int64) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, ObservedGeneration: generation}
}

func TestIsServing(t *testing.T) {
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
		{"no status", &v1alpha1.DemoApp{}, false, false},
		{"held", held(as), true, false},
		{"held by a missing key", with(releasev1alpha1.ReasonSecretNotFound, as), true, false},
		{"held, newest spec deployed", held(func(a *v1alpha1.DemoApp) { a.Status.Conditions[0].ObservedGeneration = 2 }), true, true},
		{"status of an older generation", held(func(a *v1alpha1.DemoApp) { a.Generation = 3 }), false, false},
		{"never deployed", held(func(a *v1alpha1.DemoApp) { a.Status.DeployedRelease = nil }), false, false},
		{"a pod is not ready", held(func(a *v1alpha1.DemoApp) { a.Status.ReadyReplicas = 1 }), false, false},
		{"no pods", held(func(a *v1alpha1.DemoApp) { a.Status.Replicas, a.Status.ReadyReplicas = 0, 0 }), false, false},
		{"scaled to zero", held(func(a *v1alpha1.DemoApp) {
			a.Spec.ReplicaCount, a.Status.Replicas, a.Status.ReadyReplicas = &none, 0, 0
		}), true, false},
		{"the newest revision was never healthy", held(func(a *v1alpha1.DemoApp) { a.Status.LastGoodRevision = 2 }), false, false},
		{"status of an older operator", held(func(a *v1alpha1.DemoApp) { a.Status.LastGoodRevision = 0 }), true, false},
		{"the last attempt failed", held(failed(releasev1alpha1.ConditionFailed)), false, false},
		{"rolled back", held(failed(releasev1alpha1.ConditionRemediated)), false, false},
		{"progressing", with(apimeta.ReasonProgressing, as), false, false},
		{"unhealthy", with(apimeta.ReasonUnhealthy, as), false, false},
		{"not healthy in time", with(releasev1alpha1.ReasonHealthTimeout, as), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "serving", test.serving, isServing(test.app))
			expect.Equal(t, "arrived", test.arrived, hasArrived(test.app))
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
