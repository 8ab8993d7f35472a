// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// slot is one node and what is found for it.
type slot struct {
	node string
	// desired is the app as it is to be.
	desired *v1alpha1.DemoApp
	state   state
	// app is the one that the DemoAppCluster has there; nil when it has none.
	app *v1alpha1.DemoApp
}

// state is what a slot holds.
type state int

const (
	// stateAbsent is a slot without an app.
	stateAbsent state = iota
	// stateTaken is a slot whose name somebody else's app has.
	stateTaken
	// stateLeaving is a slot whose name an app has that is being deleted.
	stateLeaving
	// stateOutdated is a slot whose app is not as the template has it.
	stateOutdated
	// stateUpdated is a slot whose app is as the template has it.
	stateUpdated
)

// plan is what to do now.
type plan struct {
	create, update []slot
	remove         []*v1alpha1.DemoApp
}

func (p plan) isEmpty() bool { return len(p.create)+len(p.update)+len(p.remove) == 0 }

// decide says what to do now about what is observed.
//
// New apps are made and superfluous ones deleted at once: neither takes anything
// away from anybody. Outdated apps that do not serve are updated at once, since
// that can only make them better. Those that do wait for their turn, also where a
// gate keeps them from being ready: as many apps may be unavailable because of the
// rollout as maxUnavailable says. An app that has the template and is held by a gate
// counts as one of them, or all would change together when the gate opens.
func decide(observed observation, maxUnavailable int) plan {
	var p plan
	var serving []slot
	unavailable := 0
	for _, s := range observed.slots {
		switch {
		case s.state == stateAbsent:
			p.create = append(p.create, s)
		case s.state == stateOutdated && isServing(s.app):
			serving = append(serving, s)
		case s.state == stateOutdated:
			p.update = append(p.update, s)
			unavailable++
		case s.state == stateUpdated && !hasArrived(s.app) && wasUpdated(s.app):
			unavailable++
		}
	}
	turns := min(len(serving), max(0, maxUnavailable-unavailable))
	p.update = append(p.update, serving[:turns]...)
	p.remove = observed.extra
	return p
}

// isServing reports whether another spec would take a workload away: the app is
// ready, or its pods are and only something that holds a change keeps it from being
// so. That is told by the workload, whatever the gate. What is not known of the
// newest spec, and one whose last rollout has failed or has not come to its end,
// does not count: old pods may be ready beside new ones that never will be.
func isServing(app *v1alpha1.DemoApp) bool {
	if isReady(app) {
		return true
	}
	s := app.Status
	ready := meta.FindStatusCondition(s.Conditions, apimeta.ConditionReady)
	if ready == nil || ready.ObservedGeneration != app.Generation || s.DeployedRelease == nil ||
		slices.Contains(workloadReasons, ready.Reason) ||
		meta.IsStatusConditionTrue(s.Conditions, releasev1alpha1.ConditionFailed) ||
		meta.IsStatusConditionTrue(s.Conditions, releasev1alpha1.ConditionRemediated) {
		return false
	}
	if s.LastGoodRevision != 0 && s.LastGoodRevision < s.DeployedRelease.Revision {
		return false // What is deployed was never healthy. An older operator did not write this down.
	}
	wantsNone := app.Spec.ReplicaCount != nil && *app.Spec.ReplicaCount == 0
	return s.ReadyReplicas >= s.Replicas && (s.Replicas > 0 || wantsNone)
}

// workloadReasons are those of Ready that are about the workload itself.
var workloadReasons = []string{apimeta.ReasonProgressing, apimeta.ReasonUnhealthy, releasev1alpha1.ReasonHealthTimeout}

// hasArrived reports whether an app serves as its newest spec says. It does not have
// to be ready: a newer chart may wait.
func hasArrived(app *v1alpha1.DemoApp) bool {
	return isReady(app) || isServing(app) && isTrue(app, releasev1alpha1.ConditionDeployed)
}

// wasUpdated reports whether the spec of an app has changed since it was made. One
// that is not ready and whose spec never changed is new.
func wasUpdated(app *v1alpha1.DemoApp) bool { return app.Generation > 1 }

// maxUnavailable is how many of the desired apps may be unavailable because of the
// rollout: at least one, or it would never end.
func maxUnavailable(strategy v1alpha1.UpdateStrategy, desired int) int {
	if strategy.MaxUnavailable == nil {
		return 1
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(strategy.MaxUnavailable, desired, true)
	if err != nil {
		return 1 // The API server takes no such value.
	}
	return max(1, value)
}
