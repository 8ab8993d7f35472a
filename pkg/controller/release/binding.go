// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/redact"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Binding is what one kind states about its releases.
type Binding[T kind.Object[T]] interface {
	// Status returns the status of the release within an object.
	Status(object T) *releasev1alpha1.ReleaseStatus
	// Desired returns what the object asks for, and may report in the object's status how
	// it came about. An error says that it could not be found out. What is returned beside
	// an error is used to report the error: the release without values, the policy and the
	// redactor are always set.
	Desired(ctx context.Context, p *kind.Pass[T]) (Desired, error)
}

// Desired is what an object asks for.
type Desired struct {
	// Release is the desired release. Its values are complete if Known.
	Release helm.Release
	// Known says that all values are known. While they are not, Blockers say why, and what
	// is deployed is kept as it is.
	Known  bool
	Policy releasev1alpha1.ReleasePolicy
	// Blockers are why nothing new may be rolled out now.
	Blockers []Blocker
	// Gates are those of the kind. They are asked after suspend and the window, and before
	// the rollout of a newer chart.
	Gates []Gate
	// Variants are the same release as it would be desired if the cluster supported
	// something else; the first is the one for a cluster that supports nothing optional.
	Variants []helm.Release
	// InputVersion stands for what the release is made of beside the spec, without being
	// derived from the content of Secrets. It goes into the status.
	InputVersion string
	// Redactor removes what no message may show.
	Redactor *redact.Redactor
	// DependencyBecameReady says that this is the first pass after a wait for another object.
	DependencyBecameReady bool
	// ChangeHeld says that a gate of the kind has held a change since an earlier pass.
	ChangeHeld bool
	// AdoptHint says what to do about a release of this name that belongs to others.
	AdoptHint string
	// Transient returns the reason of an error that passes by itself soon, although the
	// engine counts it as one of the release; "" for any other. Optional.
	Transient func(error) string
	// Changed notes in the kind's own status what a change of the release brought. It is
	// called after each success, before the release's status says so. Optional.
	Changed func(Change)
	// Summarize writes the kind's own status. It is called when it is decided what to do,
	// and at the end of a pass, also of one that failed. Optional.
	Summarize func(Outcome)
}

// Blocker is a reason why a change has to wait.
type Blocker struct {
	Reason, Message string
	// Stalled says that a person must act.
	Stalled bool
	// NotForRollback says that a rollback does not wait: it brings nothing new.
	NotForRollback bool
}

// Change is what a success brought.
type Change struct {
	Decision helm.Decision
	Deployed *helm.Deployed
	// Desired says that the release is the desired one now; otherwise the change only kept
	// or brought back what was deployed before.
	Desired bool
}

// Outcome is how the release stands in a pass.
type Outcome struct {
	// Settled says that the deployed release is the desired one.
	Settled bool
	// RolledBack says that the release was rolled back and stays so until the spec changes.
	RolledBack bool
	// Observed says that the pass reached its end and nothing held it: the status speaks of
	// the current generation.
	Observed bool
}

// Facts are what a pass is decided on. They do not change during the pass.
type Facts struct {
	Key        cache.ObjectName
	UID        types.UID
	Generation int64
	Created    time.Time
	Reason     controller.Reason
	Now        time.Time
	Desired    Desired
	// Digest identifies the desired release, and InputVersion stands for it in the status;
	// both are empty while it is not known.
	Digest, InputVersion string
	// Requested says that a user asked for this pass, and ForceAt is the value by which one
	// asked for an upgrade; empty when nobody did.
	Requested bool
	ForceAt   string
}

// OwnDigest identifies what the object itself asks for, whatever the cluster supports,
// which changes for many objects at a time.
func (f Facts) OwnDigest() string {
	if len(f.Desired.Variants) == 0 || !f.Desired.Known {
		return f.Digest
	}
	if digest, err := f.Desired.Variants[0].InputDigest(); err == nil {
		return digest
	}
	return f.Digest
}

// isVariant reports whether inputs are those of the desired release on a cluster that
// supports something else.
func (f Facts) isVariant(inputs string) bool {
	for _, variant := range f.Desired.Variants {
		if digest, err := variant.InputDigest(); err == nil && digest == inputs {
			return true
		}
	}
	return false
}

// Gate decides on outside state whether a change may be rolled out. It changes nothing
// itself. A gate that is not used removes its condition.
type Gate func(ctx context.Context, input GateInput) Verdict

// GateInput is what a gate decides on.
type GateInput struct {
	Facts

	Plan Plan
	// Status is the status so far, with the conditions of the gates before this one.
	// Read-only.
	Status *releasev1alpha1.ReleaseStatus
	// Blocked says that something else holds the change already.
	Blocked bool
}

// Verdict is what a gate found.
type Verdict struct {
	// Condition is set, and conditions of the types in Remove are removed.
	Condition *metav1.Condition
	Remove    []string
	// Blockers hold the change, before all others if First.
	Blockers []Blocker
	First    bool
	// LookAgain is when to ask again at the latest; 0 for no such time.
	LookAgain time.Duration
}

// Condition returns a condition as a [Verdict] has it.
func Condition(conditionType string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}
