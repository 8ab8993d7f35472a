// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// ownership classifies the owner of an observed object.
type ownership int

const (
	// ownerSelf: the object belongs to the owner.
	ownerSelf ownership = iota
	// ownerPredecessor: the object belongs to a deleted owner of the same kind and name, and will
	// be garbage collected.
	ownerPredecessor
	// ownerNone: the object has no controller, and the operator did not create it.
	ownerNone
	// ownerOther: the object has another controller.
	ownerOther
)

// ownershipOf returns the ownership of an object, by its controller reference. An object without a
// controller belongs to the owner if the operator created it: the owner's status has its UID, and
// the operator owns fields of it. The UID alone is not enough, because other clients may be allowed
// to write the status.
func ownershipOf(owner metav1.Object, kind schema.GroupKind, record childv1alpha1.AppliedChild, got *Observed) ownership {
	controller := metav1.GetControllerOfNoCopy(got)
	switch {
	case controller == nil && record.UID == string(got.UID) && got.trace.Fingerprint != "":
		return ownerSelf
	case controller == nil:
		return ownerNone
	case controller.UID == owner.GetUID():
		return ownerSelf
	case controller.Name == owner.GetName() && controller.Kind == kind.Kind &&
		schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).Group == kind.Group:
		return ownerPredecessor
	default:
		return ownerOther
	}
}

// action is the next step for one child.
type action int

const (
	// actionNone: the object matches the desired state.
	actionNone action = iota
	// actionCreate: the object does not exist.
	actionCreate
	// actionUpdate: the object belongs to the owner and differs from the desired state.
	actionUpdate
	// actionWait: the child can be created only after the object is deleted.
	actionWait
	// actionConflict: the object belongs to another owner.
	actionConflict
)

// decide returns the next step for a desired child.
func decide(owned ownership, desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) action {
	switch {
	case got == nil:
		return actionCreate
	case owned == ownerOther, owned == ownerNone && !desired.once && !desired.continues(got):
		return actionConflict
	case owned == ownerPredecessor, got.DeletionTimestamp != nil:
		return actionWait
	case desired.once:
		return actionNone
	case record.UID == string(got.UID) && record.Digest == desired.digest && ssa.Matches(record.Fingerprint, got.trace.Fingerprint) &&
		sameValues(desired.values, got.values):
		return actionNone
	default:
		return actionUpdate
	}
}

// continues reports whether an object without a controller was made for an earlier owner of the same
// kind and name: the owner was deleted with the propagation policy Orphan, or a backup tool created the
// object again. The object has the labels of the desired child, which name the owner. In addition, the
// operator owns fields of the object, or the object has the operator's own label, because few backup
// tools keep managedFields. A client that can write these labels can write the object.
func (d desiredChild) continues(got *Observed) bool {
	labels := maps.Clone(d.object.GetLabels())
	delete(labels, ManagedByLabel)
	return len(labels) > 0 && contains(got.Labels, labels) && (got.trace.Fingerprint != "" || got.Labels[ManagedByLabel] == FieldManager)
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

// isCorrection reports whether an apply corrects drift: the last apply had the same desired state,
// and another client changed or deleted the child since.
func isCorrection(desired desiredChild, record childv1alpha1.AppliedChild, got *Observed) bool {
	return record.UID != "" && record.Digest == desired.digest &&
		(got == nil || string(got.UID) != record.UID || !ssa.Matches(record.Fingerprint, got.trace.Fingerprint))
}

// controllerText describes the controller of an object for messages.
func controllerText(got *Observed) string {
	if controller := metav1.GetControllerOfNoCopy(got); controller != nil {
		return fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	}
	return "no owner"
}

// recordOf returns the record of an applied child for the owner's status.
func recordOf(owner metav1.Object, desired desiredChild, got *Observed) childv1alpha1.AppliedChild {
	record := childv1alpha1.AppliedChild{Kind: desired.kind, Name: desired.name, UID: string(got.UID)}
	if !desired.once {
		record.Digest, record.Fingerprint = desired.digest, got.trace.Fingerprint
	}
	if desired.template != "" {
		record.Template, record.Owner = desired.template, version(owner)
		record.Awaited, record.LessStrict = desired.awaited, desired.lessStrict
	}
	record.Ended = string(got.Health.Ended)
	return record
}

// uidOf is the UID that an apply is bound to.
func uidOf(got *Observed) types.UID {
	if got == nil {
		return ""
	}
	return got.UID
}
