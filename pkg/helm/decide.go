// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"time"

	"helm.sh/helm/v4/pkg/release/common"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Action is an action of the engine on a release.
type Action string

// The actions that [Decide] chooses from.
const (
	// ActionNone: the release is in its desired state.
	ActionNone Action = "None"
	// ActionWait: the operation of another client is in progress.
	ActionWait Action = "Wait"
	// ActionInstall makes the release's first revision.
	ActionInstall Action = "Install"
	// ActionUpgrade makes a new revision.
	ActionUpgrade Action = "Upgrade"
	// ActionRollback makes a new revision with the manifest of an older one,
	// [Decision.To]. Decide chooses it only to finish a rollback that failed or was
	// interrupted. The caller begins a rollback with a decision of its own;
	// [Snapshot.LastGood] is a revision to roll back to. Hooks run. The inputs of the
	// release are given up: Decide keeps the older state until the inputs change.
	// Without a chart, the inputs given up are the inputs of the newest revision. Owner references
	// in the manifest are replaced by [Release.Owner], if that is set, because the owner of the
	// older revision may be gone. Executing it fails with a [*NoSuchRevisionError] when To is not a
	// good revision before the newest one.
	ActionRollback Action = "Rollback"
	// ActionReapply applies the deployed manifest again, because the baseline of its
	// objects is not known. It makes no revision.
	ActionReapply Action = "Reapply"
	// ActionRepair applies the drifted objects of the deployed manifest again.
	// It makes no revision.
	ActionRepair Action = "Repair"
	// ActionRefuse changes nothing: the release belongs to another owner. Executing it fails with
	// an [OwnershipConflictError].
	ActionRefuse Action = "Refuse"
)

// Cause is the reason for an action.
type Cause string

// The causes of a decision.
const (
	// CauseNone belongs to ActionNone.
	CauseNone Cause = ""
	// CauseNotInstalled: there is no record of the release.
	CauseNotInstalled Cause = "NotInstalled"
	// CauseInputsChanged: chart, values or owner differ from the newest revision.
	CauseInputsChanged Cause = "InputsChanged"
	// CauseReleaseChanged: the newest revision was not made by this engine.
	CauseReleaseChanged Cause = "ReleaseChanged"
	// CauseFailed: the previous attempt at the same inputs failed.
	CauseFailed Cause = "Failed"
	// CauseInterrupted: the previous attempt did not finish.
	CauseInterrupted Cause = "Interrupted"
	// CauseBaselineUnknown: the caller has no baseline of the newest revision.
	CauseBaselineUnknown Cause = "BaselineUnknown"
	// CauseUnverified: the record of the newest revision is not verified. The process ended before
	// the caller stored the revision's digest, or the record is forged.
	CauseUnverified Cause = "Unverified"
	// CauseOtherOwner: the release belongs to another owner.
	CauseOtherOwner Cause = "OtherOwner"
	// CauseDrift: another client changed or deleted objects of the release.
	CauseDrift Cause = "Drift"
	// CauseRequested: an upgrade to equal inputs was requested. Decide never returns
	// it; callers use it in a decision of their own.
	CauseRequested Cause = "Requested"
)

// Decision is the next action for a release, with its cause.
type Decision struct {
	Action Action
	Cause  Cause
	// Replace is the revision that the action repeats, because the attempt failed or was
	// interrupted, or because its record is not verified. It is 0 for a new revision. So a failing
	// release does not accumulate revisions. The action fails with an error that wraps
	// [ErrNotSynced] if the newest revision has changed since.
	Replace int
	// To is the revision whose manifest ActionRollback restores.
	To int
	// RolledBack means that the desired inputs are not deployed. They were given up for an older
	// revision, which stays deployed until other inputs are desired or the caller executes an
	// ActionUpgrade.
	RolledBack bool
	// Drifts are the drifts that ActionRepair corrects.
	Drifts []Drift
	// RetryAfter is the time until the release should be observed again; only for
	// ActionWait.
	RetryAfter time.Duration
}

// Decide chooses the next action, given the digest of the desired inputs (see
// [Release.InputDigest]) and the observed state. It is a pure function. It never renders the chart,
// because a chart may render differently each time. An operation of another client that takes
// longer than patience counts as abandoned.
func Decide(inputs string, observed Snapshot, now time.Time, patience time.Duration) Decision {
	record := observed.Record
	if record == nil {
		return Decision{Action: ActionInstall, Cause: CauseNotInstalled}
	}
	status := common.Status(record.Status)
	switch {
	case status.IsPending():
		return decidePending(inputs, observed, now, patience)
	case status == common.StatusUninstalling:
		return decideUninstalling(record, now, patience)
	case status == common.StatusUninstalled:
		return Decision{Action: ActionInstall, Cause: CauseReleaseChanged}
	case !record.Own:
		return Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged}
	case !record.Settles(inputs):
		return Decision{Action: ActionUpgrade, Cause: CauseInputsChanged}
	case status == common.StatusFailed && !record.Unhealthy:
		return replace(observed, CauseFailed)
	case status != common.StatusDeployed && !record.Unhealthy:
		return Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged}
	}
	decision := keep(observed)
	decision.RolledBack = record.Inputs != inputs && decision.Action != ActionInstall && decision.Action != ActionUpgrade
	return decision
}

// keep decides on a release whose newest revision has the desired inputs.
func keep(observed Snapshot) Decision {
	switch {
	case observed.Unverified:
		return replace(observed, CauseUnverified)
	case !observed.BaselineKnown:
		return Decision{Action: ActionReapply, Cause: CauseBaselineUnknown}
	case len(observed.Drifts) > 0:
		return Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: observed.Drifts}
	default:
		return Decision{Action: ActionNone}
	}
}

// decidePending decides on a pending revision. An attempt of this engine was interrupted, because
// the engine holds the release's lock. The operation of another client may be in progress.
func decidePending(inputs string, observed Snapshot, now time.Time, patience time.Duration) Decision {
	record := observed.Record
	if record.Own && record.RolledBackTo != 0 && !record.Settles(inputs) {
		return Decision{Action: ActionUpgrade, Cause: CauseInterrupted, Replace: record.Revision}
	}
	if record.Own {
		return replace(observed, CauseInterrupted)
	}
	if left := patience - now.Sub(record.Changed); left > 0 {
		return Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: left}
	}
	return replace(observed, CauseInterrupted)
}

// decideUninstalling waits for the uninstall of another client. After an uninstall of this engine,
// there are no further decisions.
func decideUninstalling(record *record.Record, now time.Time, patience time.Duration) Decision {
	if left := patience - now.Sub(record.Changed); left > 0 {
		return Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: left}
	}
	return Decision{Action: ActionInstall, Cause: CauseReleaseChanged}
}

// replace repeats the attempt of the newest record.
func replace(observed Snapshot, cause Cause) Decision {
	record := observed.Record
	decision := Decision{Action: ActionUpgrade, Cause: cause, Replace: record.Revision}
	switch {
	case record.RolledBackTo != 0 && observed.Verifies(record.RolledBackTo):
		decision.Action, decision.To = ActionRollback, record.RolledBackTo
	case record.Revision == 1:
		decision.Action = ActionInstall
	}
	return decision
}
