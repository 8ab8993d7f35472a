// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of the kstatus contract, which "kubectl wait", Argo CD, Flux
// and Helm read. All of them carry the observed generation.
const (
	// ConditionReady is True while the object is as its spec says and its workload is
	// healthy. It is always present after the first pass. Its reason is the most telling
	// one: that of the condition that keeps the object from being ready.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec or
	// waits for something that is expected to come by itself. It is absent
	// otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the operator cannot go on until a person
	// acts. It is absent otherwise, and never present together with Reconciling.
	ConditionStalled = "Stalled"
)

// Reasons of Ready, Reconciling and Stalled that every kind may have.
const (
	// ReasonHealthy is why Ready is True: every owned object is current by kstatus.
	ReasonHealthy = "Healthy"
	// ReasonProgressing is a workload on its way, for example pods that start. It is
	// not worth an event.
	ReasonProgressing = "Progressing"
	// ReasonUnhealthy is a workload that failed by its own account, for example a
	// Deployment past its progress deadline.
	ReasonUnhealthy = "Unhealthy"
	// ReasonRefused is an object that the API server refuses, by validation or
	// admission. It is terminal where the same object would be refused again.
	ReasonRefused = "Refused"
	// ReasonOwnershipConflict is an object of a desired name, or a release, that exists
	// already and belongs to another owner. It is not touched.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonObserveFailed is a failure to read what is needed to decide; it is
	// retried.
	ReasonObserveFailed = "ObserveFailed"
	// ReasonFinalizerFailed is a finalizer that could not be removed, after all
	// else was done: an admission rule refuses it. The deletion waits and is
	// retried.
	ReasonFinalizerFailed = "FinalizerFailed"
)
