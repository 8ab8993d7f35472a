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

// slot is one node and the observed state of its app.
type slot struct {
	node string
	// desired is the desired app.
	desired *v1alpha1.DemoApp
	state   state
	// app is the app of the DemoAppCluster; nil for none.
	app *v1alpha1.DemoApp
}

// state is the observed state of a slot.
type state int

const (
	// stateAbsent is a slot without an app.
	stateAbsent state = iota
	// stateTaken is a slot whose name an app of another owner has.
	stateTaken
	// stateLeaving is a slot whose app is being deleted.
	stateLeaving
	// stateOutdated is a slot whose app differs from the template.
	stateOutdated
	// stateUpdated is a slot whose app matches the template.
	stateUpdated
)

// plan lists the writes of a pass.
type plan struct {
	create, update []slot
	remove         []extra
}

func (p plan) isEmpty() bool { return len(p.create)+len(p.update)+len(p.remove) == 0 }

// decide returns the writes for the observed state. removed are the apps without a node that go now,
// see [decideRemovals].
//
// Apps are created and deleted at once, because neither makes another app unavailable.
// Outdated apps that do not serve are updated at once, because an update cannot make them
// worse. Outdated apps that serve wait for their turn, even if a gate holds them: at most
// maxUnavailable apps may be unavailable because of the rollout. An updated app that a
// gate holds counts as unavailable. Otherwise all apps would change together when the
// gate opens.
func decide(observed observation, removed []extra, maxUnavailable int) plan {
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
	p.remove = removed
	return p
}

// isServing reports whether an update would interrupt a workload. Either the app is
// ready, or its pods are ready and only a gate keeps the app from being ready. The
// workload decides, whatever the gate is. An app does not count if its newest generation
// is not observed, or if its last rollout failed or is incomplete. Its old pods may be ready while
// its new pods never will be.
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
		return false // The deployed revision was never healthy. 0 is the status of an older operator.
	}
	scaledToZero := app.Spec.ReplicaCount != nil && *app.Spec.ReplicaCount == 0
	return s.ReadyReplicas >= s.Replicas && (s.Replicas > 0 || scaledToZero)
}

// workloadReasons are the reasons of Ready that are about the workload itself.
var workloadReasons = []string{apimeta.ReasonProgressing, apimeta.ReasonUnhealthy, releasev1alpha1.ReasonHealthTimeout}

// hasArrived reports whether an app serves its newest spec. The app need not be ready,
// because a newer chart may wait for its turn.
func hasArrived(app *v1alpha1.DemoApp) bool {
	return isReady(app) || isServing(app) && isTrue(app, releasev1alpha1.ConditionDeployed)
}

// wasUpdated reports whether the spec of an app has changed since its creation.
func wasUpdated(app *v1alpha1.DemoApp) bool { return app.Generation > 1 }

// maxUnavailable is how many of the desired apps may be unavailable because of the
// rollout. It is at least one, because the rollout would otherwise never end.
func maxUnavailable(strategy v1alpha1.UpdateStrategy, desired int) int {
	if strategy.MaxUnavailable == nil {
		return 1
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(strategy.MaxUnavailable, desired, true)
	if err != nil {
		return 1 // The API server refuses such a value.
	}
	return max(1, value)
}
