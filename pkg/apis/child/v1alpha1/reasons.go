// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of the conditions Ready, Reconciling and Stalled of a kind with children.
const (
	// ReasonHealthy: all children are as desired and healthy.
	ReasonHealthy = "Healthy"
	// ReasonProgressing: all children are as desired, and not all are healthy yet.
	ReasonProgressing = "Progressing"
	// ReasonUnhealthy: a child has failed, for instance a rollout that passed its deadline.
	ReasonUnhealthy = "Unhealthy"
	// ReasonWaitingForDeletion: an object of a child's name is being deleted, or belongs
	// to a deleted owner of the same name and will be garbage collected. The child is
	// created when that object is gone.
	ReasonWaitingForDeletion = "WaitingForDeletion"
	// ReasonOwnershipConflict: an object of a child's name belongs to another owner, and was
	// not touched. Rename or delete that object.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonRefused: the API server refused a child as invalid, for instance the change of
	// an immutable field. The message names the field.
	ReasonRefused = "Refused"
	// ReasonApplyFailed: a child could not be written. The operator tries again.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of events about children.
const (
	// ReasonCreated: the operator created the children of a new object.
	ReasonCreated = "Created"
	// ReasonDriftCorrected: the operator restored children that others had changed or
	// deleted.
	ReasonDriftCorrected = "DriftCorrected"
)
