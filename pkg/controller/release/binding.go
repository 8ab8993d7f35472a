// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Binding connects one kind to the lifecycle of its releases.
type Binding[T kind.Object[T], S any] interface {
	// Status returns the status of the release within the status of an object.
	Status(status *S) *releasev1alpha1.ReleaseStatus
	// Release returns the release of an object without its values, and its policy. See [For]. It
	// is called in a deletion, too, and reads nothing.
	Release(object T) (helm.Release, releasev1alpha1.ReleasePolicy)
	// Desired completes the desired state of the release, and may report in the object's status how
	// it was determined. known has the release with the values of [Sources] only, their keys, the
	// policy, the redactor and the hints for messages. While a source is missing, what Desired returns
	// does not count as known. Desired returns an error if the desired state cannot be determined. A
	// result that comes with an error is used to report it.
	Desired(ctx context.Context, p *kind.Pass[T], known Desired) (Desired, error)
}

// For returns the release of an object without its values: it has the name and the namespace of the
// object, which owns its objects. They are in the same namespace.
func For(object metav1.Object, kind schema.GroupVersionKind, chart *chart.Chart, policy releasev1alpha1.ReleasePolicy) helm.Release {
	// To block the deletion of the owner, the operator would need the permission to change finalizers.
	owner := metav1.NewControllerRef(object, kind)
	owner.BlockOwnerDeletion = nil
	adopt, err := strconv.ParseBool(object.GetAnnotations()[releasev1alpha1.AnnotationAdoptRelease])
	return helm.Release{
		Namespace: object.GetNamespace(), Name: object.GetName(), Chart: chart, Owner: owner, Scope: helm.ScopeNamespace,
		Timeout: Timeout(policy), MaxHistory: MaxHistory(policy), Ignore: IgnoreRules(policy), Adopt: err == nil && adopt,
	}
}

// Desired is the desired state of a release.
type Desired struct {
	// Release is the desired release. Its values are complete if Known.
	Release helm.Release
	// Known says that all values are known. Otherwise Blockers give the cause, and the
	// deployed release is kept as it is.
	Known  bool
	Policy releasev1alpha1.ReleasePolicy
	// Blockers are the reasons why no change may be rolled out now.
	Blockers []Blocker
	// Gates are the gates of the kind. They are evaluated after suspend and the upgrade
	// window, and before the rollout of a change that several objects get.
	Gates []Gate
	// Variants are the desired releases for clusters that support other optional kinds.
	// The first variant is for a cluster that supports none.
	Variants []helm.Release
	// InputVersion identifies the inputs of the release outside the spec. It is not derived from
	// the content of Secrets, because it is stored in the status. Without it, the lifecycle
	// identifies the inputs by their digest, in memory and in the records. A restart then starts an
	// attempt afresh if it was given up before any revision was recorded.
	InputVersion string
	// Keys are the texts of the keys of Secrets, by their fields, see [SecretKey].
	Keys map[string]string
	// Sources identifies the object's own inputs of the release outside the spec: the Secrets and
	// ConfigMaps that the object names, or its labels. It is not derived from the content of
	// Secrets, because its digest is stored in the status. A change of it does not wait for the
	// rollout.
	Sources string
	// Redactor removes secret values from messages.
	Redactor *redact.Redactor
	// DependencyBecameReady says that this is the first pass after all objects of [Options].WaitFor became
	// ready. The loop sets it.
	DependencyBecameReady bool
	// SuspendedBy is the field or annotation that suspends the object, for messages; by
	// default "spec.suspend".
	SuspendedBy string
	// SuspendReason is the reason of the condition Suspended; by default SuspendedBySpec.
	SuspendReason string
	// SuspendedWhy says in one short line why the user suspends the object. The lifecycle reads it
	// from an annotation.
	SuspendedWhy string
	// ChangeHeld says that a gate of the kind held a change in an earlier pass.
	ChangeHeld bool
	// DeployedIsAnyRevision says that the condition Deployed is True while any revision is
	// deployed, and absent before. By default, Deployed is False while the desired revision
	// is not deployed.
	DeployedIsAnyRevision bool
	// AdoptHint is the advice to the user about a release of this name that has another owner. The
	// default names the annotation adopt-release.
	AdoptHint string
	// Transient returns the reason of an error that a retry soon resolves, although the
	// engine reports it as a failure of the release. It returns "" for all other errors.
	// Optional.
	Transient func(error) string
	// Changed records a change of the release in the kind's own status. It is called
	// after each success, before the release's status is updated. Optional.
	Changed func(Change)
	// Summarize writes the kind's own status. It is called after the decision, and at the
	// end of each pass, including failed ones. Optional.
	Summarize func(Outcome)
}

// Blocker is a reason why a change has to wait.
type Blocker struct {
	Reason, Message string
	// Stalled says that a user must act.
	Stalled bool
	// NotForRollback says that a rollback does not wait, because it brings back an
	// earlier revision.
	NotForRollback bool
}

// Change is the result of a successful action.
type Change struct {
	Decision helm.Decision
	Deployed *helm.Deployed
	// Desired says that the deployed release is now the desired one. Otherwise the action
	// only kept or restored an earlier revision.
	Desired bool
}

// Outcome is the state of the release in a pass.
type Outcome struct {
	// Settled says that the deployed release is the desired one.
	Settled bool
	// RolledBack says that the release was rolled back, and stays so until the spec
	// changes.
	RolledBack bool
	// Observed says that the pass completed and nothing held it, so the status describes
	// the current generation.
	Observed bool
}

// Facts are the inputs of a pass. They do not change during the pass.
type Facts struct {
	// Key is the object's. The key of its release may differ.
	Key        cache.ObjectName
	UID        types.UID
	Generation int64
	Created    time.Time
	Reason     controller.Reason
	Now        time.Time
	Desired    Desired
	// Digest identifies the desired release. InputVersion is its counterpart that may be
	// stored in the status. Both are empty while the desired release is not known.
	Digest, InputVersion string
	// FailureUnknown says that an earlier process recorded the failures in the status, and that it is
	// not known whether they are failures of these inputs.
	FailureUnknown bool
	// Capabilities identifies the kinds of the API server, if the failures so far depend on them.
	Capabilities string
	// SourcesChanged says that Desired.Sources differs from the one with which the release last
	// settled.
	SourcesChanged bool
	// Requested says that a user requested this pass. ForceAt is the annotation value
	// that requests an upgrade; empty for none.
	Requested bool
	ForceAt   string
}

// release returns the key of the release.
func (f Facts) release() cache.ObjectName { return f.Desired.Release.Key() }

// isVariant reports whether inputs belong to a variant of the desired release.
func (f Facts) isVariant(inputs string) bool {
	for _, variant := range f.Desired.Variants {
		if digest, err := variant.InputDigest(); err == nil && digest == inputs {
			return true
		}
	}
	return false
}

// Gate decides from external state whether a change may be rolled out. It has no side
// effects. A gate whose feature is not used removes its condition.
type Gate func(ctx context.Context, input GateInput) Verdict

// GateInput is the input of a gate.
type GateInput struct {
	Facts

	Plan Plan
	// Status is the status with the conditions of the earlier gates. Read-only.
	Status *releasev1alpha1.ReleaseStatus
	// Blocked says that another blocker holds the change already.
	Blocked bool
}

// Verdict is the result of a gate.
type Verdict struct {
	// Condition is set. Conditions of the types in Remove are removed. UpgradeHeld is set by the first
	// gate with this condition, and is removed if no gate does.
	Condition *metav1.Condition
	Remove    []string
	// Blockers hold the change. They precede all other blockers if First is set.
	Blockers []Blocker
	First    bool
	// RequeueAfter is the maximum delay before the gate is evaluated again; 0 for no delay.
	RequeueAfter time.Duration
}

// Condition returns a condition for a [Verdict].
func Condition(conditionType string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}
