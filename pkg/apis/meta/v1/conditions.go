// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of the kstatus contract, which "kubectl wait", Argo CD, Flux and Helm
// read. Each condition carries the observed generation.
const (
	// ConditionReady is True while the desired state is applied and the workload is
	// healthy. It is always present after the first reconcile. While it is False, it has the reason
	// of the condition that keeps the object from being ready.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the desired state, or
	// waits for an event that needs no user. It is absent otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the operator cannot make progress until a user acts.
	// It is absent otherwise, and never present together with Reconciling.
	ConditionStalled = "Stalled"
)

// AnnotationPaused freezes an object of any kind while its value is true, by
// strconv.ParseBool. On a Namespace, it freezes all objects in the namespace. Nothing of a
// frozen object is changed. Its deletion works.
const AnnotationPaused = "demo.example.com/paused"

// AnnotationPausedReason says why the object, or the objects of the Namespace, are frozen. The
// condition Suspended shows the first 256 bytes.
const AnnotationPausedReason = "demo.example.com/paused-reason"

// AnnotationRequestedAt requests one full pass over an object of any kind each time its value
// changes.
const AnnotationRequestedAt = "demo.example.com/requested-at"

// AnnotationForceAt applies a change that waits, each time its value changes. A change that another
// client has to grant still waits.
const AnnotationForceAt = "demo.example.com/force-at"

// ConditionUpgradeHeld is True while a change of the operator waits for its turn in the rollout, for
// a change of the object, or for the upgrade window. While the object takes its turn, or after it
// failed in its turn, the condition of a kind without releases is False. It is absent otherwise.
const ConditionUpgradeHeld = "UpgradeHeld"

// Reasons of UpgradeHeld that are about a rollout. A change of the operator is another chart, another
// default value, another flag or a newer version.
const (
	// ReasonRolloutQueued means that a change of the operator waits for its turn, because
	// --max-concurrent-rollouts objects of the kind get it at a time.
	ReasonRolloutQueued = "RolloutQueued"
	// ReasonRolloutHalted means that the rollout of a change of the operator is halted, because
	// --rollout-failure-threshold objects of the namespace failed with it, or objects of as many
	// namespaces. The rollout continues when some of them recover, change or are deleted. The
	// annotation demo.example.com/force-at applies the change to one object anyway.
	ReasonRolloutHalted = "RolloutHalted"
)

// ConditionSuspended is True while nothing of the object is changed. The message says what
// suspends the object. It is absent otherwise.
const ConditionSuspended = "Suspended"

// Reasons of Suspended. Ready and Reconciling have them while a change waits.
const (
	// ReasonSuspendedByAnnotation means that the object has the annotation that pauses it.
	ReasonSuspendedByAnnotation = "SuspendedByAnnotation"
	// ReasonSuspendedByNamespace means that the Namespace of the object has the annotation
	// demo.example.com/paused.
	ReasonSuspendedByNamespace = "SuspendedByNamespace"
	// ReasonSuspendedByHandler means that a function of the operator's program suspends the
	// object.
	ReasonSuspendedByHandler = "SuspendedByHandler"
)

// Reasons of Ready, Reconciling and Stalled that all kinds share.
const (
	// ReasonHealthy is the reason of Ready=True: every owned object is Current by
	// kstatus.
	ReasonHealthy = "Healthy"
	// ReasonProgressing means that the workload is being rolled out, for example that
	// pods start. It emits no event.
	ReasonProgressing = "Progressing"
	// ReasonUnhealthy means that the workload failed by kstatus, for example a Deployment
	// past its progress deadline.
	ReasonUnhealthy = "Unhealthy"
	// ReasonRefused means that the API server refused an object, by validation or
	// admission. It is terminal if the same object would be refused again.
	ReasonRefused = "Refused"
	// ReasonOwnershipConflict means that an object of a desired name, or the release,
	// exists and has another owner. The operator does not change it.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonRepeatedDrift means that another client changes or deletes an object again after
	// each correction. The object is corrected at growing intervals, up to 5 minutes.
	ReasonRepeatedDrift = "RepeatedDrift"
	// ReasonObserveFailed means that the observed state could not be read. The read is
	// retried.
	ReasonObserveFailed = "ObserveFailed"
	// ReasonSystemNamespace means that the object is in a system namespace, for example
	// kube-system. The operator changes nothing there, unless a flag names the namespace.
	ReasonSystemNamespace = "SystemNamespace"
	// ReasonDeleting means that the deletion of the object takes time and nothing has failed.
	// The message says why it takes time. It emits no event.
	ReasonDeleting = "Deleting"
	// ReasonFinalizerFailed means that the finalizer could not be removed, because an
	// admission rule refuses the update. All other steps of the deletion are done. The
	// removal is retried.
	ReasonFinalizerFailed = "FinalizerFailed"
)

// ReasonOrphaned is the reason of the event of an object that was deleted with the propagation policy
// Orphan: everything that it made was kept.
const ReasonOrphaned = "Orphaned"
