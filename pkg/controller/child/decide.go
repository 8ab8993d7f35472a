// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// belonging says whose an object is.
type belonging int

const (
	// ours: the object belongs to the owner.
	ours belonging = iota
	// predecessors: the object belongs to a deleted owner of the same kind and name, and
	// will be garbage collected.
	predecessors
	// unclaimed: the object has no controller and was not made by the operator.
	unclaimed
	// strangers: the object has another controller.
	strangers
)

// belongsTo decides whose an object is. The controller reference decides. An object that
// lost it is the owner's if the operator made it: the owner's status knows its UID, and the
// operator owns fields of it. The UID alone would not do, because others may be allowed to
// write the status.
func belongsTo(owner metav1.Object, kind schema.GroupKind, record childv1alpha1.AppliedChild, got *Observed) belonging {
	controller := metav1.GetControllerOfNoCopy(got)
	switch {
	case controller == nil && record.UID == string(got.UID) && got.trace.Fingerprint != "":
		return ours
	case controller == nil:
		return unclaimed
	case controller.UID == owner.GetUID():
		return ours
	case controller.Name == owner.GetName() && controller.Kind == kind.Kind &&
		schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).Group == kind.Group:
		return predecessors
	default:
		return strangers
	}
}

// action is what has to be done about one child.
type action int

const (
	// leave: the object is as desired.
	leave action = iota
	// create: the object does not exist.
	create
	// change: the object is the owner's and not as desired.
	change
	// await: the child can only be created when the object is gone.
	await
	// refuse: the object belongs to another owner.
	refuse
)

// decide returns what has to be done about a desired child.
func decide(whose belonging, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) action {
	switch {
	case got == nil:
		return create
	case whose == strangers, whose == unclaimed && !desired.once:
		return refuse
	case whose == predecessors, got.DeletionTimestamp != nil:
		return await
	case desired.once:
		return leave
	case record.UID == string(got.UID) && record.Digest == desired.digest && ssa.Matches(record.Fingerprint, got.trace.Fingerprint) &&
		sameValues(desired.values, got.values):
		return leave
	default:
		return change
	}
}

// sameValues reports whether a Secret has all desired values.
func sameValues(desired, got map[string][sha256.Size]byte) bool {
	for key, value := range desired {
		if found, ok := got[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// isCorrection reports whether an action restores what others changed or deleted: the
// desired state is the one that was applied before.
func isCorrection(desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) bool {
	return record.UID != "" && record.Digest == desired.digest &&
		(got == nil || string(got.UID) != record.UID || !ssa.Matches(record.Fingerprint, got.trace.Fingerprint))
}

// holder says whose an object is.
func holder(got *Observed) string {
	if controller := metav1.GetControllerOfNoCopy(got); controller != nil {
		return fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	}
	return "no owner"
}

// recordOf is what the owner's status says about a child after an apply.
func recordOf(desired desiredChild, got *Observed) childv1alpha1.AppliedChild {
	record := childv1alpha1.AppliedChild{Kind: desired.kind, Name: desired.name, UID: string(got.UID)}
	if !desired.once {
		record.Digest, record.Fingerprint = desired.digest, got.trace.Fingerprint
	}
	return record
}

// uidOf is the UID that an apply is bound to.
func uidOf(got *Observed) types.UID {
	if got == nil {
		return ""
	}
	return got.UID
}
