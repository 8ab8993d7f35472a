// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of Ready, Reconciling and Stalled that a kind with children may have, in addition to the
// reasons in pkg/apis/meta/v1.
const (
	// ReasonWaitingForDeletion is an object of a child's name that is being deleted, or that
	// belongs to a deleted owner of the same name and will be garbage collected. The child
	// is created when that object is gone.
	ReasonWaitingForDeletion = "WaitingForDeletion"
	// ReasonKindUnserved is a child that existed and is gone together with its kind, which the
	// API server does not serve any more. It is restored when the kind is back.
	ReasonKindUnserved = "KindUnserved"
	// ReasonApplyFailed is a child that could not be written; it is retried.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonWaitingForComponent is a component that starts when those before it are ready.
	ReasonWaitingForComponent = "WaitingForComponent"
	// ReasonDegraded is a component that is not ready any more, after all components were
	// ready at this generation. The other components keep running.
	ReasonDegraded = "Degraded"
)

// Reasons of UpgradeHeld that a kind with children may have, in addition to the reasons in pkg/apis/meta/v1.
const (
	// ReasonAwaitingChange means that a newer pod template of the operator waits until the spec
	// changes: the children are a database, or the template is less strict. The pods keep running
	// with the template that they have. The annotation demo.example.com/force-at applies the newer
	// template now.
	ReasonAwaitingChange = "AwaitingChange"
	// ReasonRolloutActive means that the pods get a newer template of the operator. UpgradeHeld is
	// False.
	ReasonRolloutActive = "RolloutActive"
	// ReasonRolloutUnready is ReasonRolloutActive for an object that was not ready before. Its
	// failure does not halt the rollout.
	ReasonRolloutUnready = "RolloutUnready"
	// ReasonRolloutFailed means that the pods did not become healthy with a newer template of the
	// operator. UpgradeHeld is False. A failure counts until the pods are healthy, or the object
	// changes.
	ReasonRolloutFailed = "RolloutFailed"
)

// Phases of a kind with components. A phase is a summary of the conditions.
const (
	// PhasePending: no component has started.
	PhasePending = "Pending"
	// PhaseDeploying: components start, or change to the current generation.
	PhaseDeploying = "Deploying"
	// PhaseRunning: all components are ready.
	PhaseRunning = "Running"
	// PhaseDegraded: all components were ready at this generation, and one is not any more.
	PhaseDegraded = "Degraded"
	// PhaseFailed: a component cannot become ready until a user acts.
	PhaseFailed = "Failed"
)

// Reasons of events about children.
const (
	// ReasonCreated: the operator created the children of a new object.
	ReasonCreated = "Created"
	// ReasonDriftCorrected: the operator restored children that other clients had changed or
	// deleted.
	ReasonDriftCorrected = "DriftCorrected"
)
