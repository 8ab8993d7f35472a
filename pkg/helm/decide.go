// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"time"

	"helm.sh/helm/v4/pkg/release/common"
)

// Action is what the engine would do to a release.
type Action string

// The actions that [Decide] chooses from.
const (
	// ActionNone: the release is as wanted.
	ActionNone Action = "None"
	// ActionWait: somebody else is in the middle of an operation.
	ActionWait Action = "Wait"
	// ActionInstall makes the release's first revision.
	ActionInstall Action = "Install"
	// ActionUpgrade makes a new revision.
	ActionUpgrade Action = "Upgrade"
	// ActionReapply applies the deployed manifest again, to learn the state of
	// objects whose baseline is not known. It makes no revision.
	ActionReapply Action = "Reapply"
	// ActionRepair applies the drifted objects of the deployed manifest again.
	// It makes no revision.
	ActionRepair Action = "Repair"
)

// Cause is why an action is due.
type Cause string

// The causes that [Decide] gives.
const (
	// CauseNone goes with ActionNone.
	CauseNone Cause = ""
	// CauseNotInstalled: there is no record of the release.
	CauseNotInstalled Cause = "NotInstalled"
	// CauseInputsChanged: chart, values or owner differ from those of the newest
	// revision.
	CauseInputsChanged Cause = "InputsChanged"
	// CauseReleaseChanged: the newest revision was not made by this engine.
	CauseReleaseChanged Cause = "ReleaseChanged"
	// CauseFailed: the previous attempt at the same inputs failed.
	CauseFailed Cause = "Failed"
	// CauseInterrupted: the previous attempt did not come to its end.
	CauseInterrupted Cause = "Interrupted"
	// CauseBaselineUnknown: nobody remembers what the deployed objects were like.
	CauseBaselineUnknown Cause = "BaselineUnknown"
	// CauseDrift: somebody else changed or deleted objects of the release.
	CauseDrift Cause = "Drift"
)

// Decision is what to do about a release, and why.
type Decision struct {
	Action Action
	Cause  Cause
	// Replace says that the newest record is an unfinished or failed attempt at
	// the same release, whose place the action takes. A release that keeps
	// failing therefore does not pile up revisions.
	Replace bool
	// Drifts are what ActionRepair mends.
	Drifts []Drift
	// RetryAfter says when to look again; only for ActionWait.
	RetryAfter time.Duration
}

// Decide chooses what to do, given the digest of the wanted release's inputs
// (see [Release.InputDigest]) and what was observed. It is a pure function: it
// never renders the chart, because a chart may render differently each time.
// The patience is how long an operation of somebody else may take before it
// counts as abandoned.
func Decide(inputs string, observed Snapshot, now time.Time, patience time.Duration) Decision {
	record := observed.Record
	if record == nil {
		return Decision{Action: ActionInstall, Cause: CauseNotInstalled}
	}
	status := common.Status(record.Status)
	switch {
	case status.IsPending():
		return decidePending(record, now, patience)
	case status == common.StatusUninstalling:
		return decideUninstalling(record, now, patience)
	case status == common.StatusUninstalled:
		return Decision{Action: ActionInstall, Cause: CauseReleaseChanged}
	case !record.Own:
		return Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged}
	case record.Inputs != inputs:
		return Decision{Action: ActionUpgrade, Cause: CauseInputsChanged}
	case status == common.StatusFailed:
		return replace(record, CauseFailed)
	case status != common.StatusDeployed:
		return Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged}
	case !observed.BaselineKnown:
		return Decision{Action: ActionReapply, Cause: CauseBaselineUnknown}
	case len(observed.Drifts) > 0:
		return Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: observed.Drifts}
	default:
		return Decision{Action: ActionNone}
	}
}

// decidePending tells an own attempt, which cannot be in flight because the
// engine holds the release's lock, from the operation of somebody else.
func decidePending(record *Record, now time.Time, patience time.Duration) Decision {
	if record.Own {
		return replace(record, CauseInterrupted)
	}
	if left := patience - now.Sub(record.Changed); left > 0 {
		return Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: left}
	}
	return replace(record, CauseInterrupted)
}

// decideUninstalling lets somebody else's uninstall come to its end. An own one
// never gets here: what is uninstalled is not decided on any more.
func decideUninstalling(record *Record, now time.Time, patience time.Duration) Decision {
	if left := patience - now.Sub(record.Changed); left > 0 {
		return Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: left}
	}
	return Decision{Action: ActionInstall, Cause: CauseReleaseChanged}
}

// replace redoes the attempt that the record stands for.
func replace(record *Record, cause Cause) Decision {
	if record.Revision == 1 {
		return Decision{Action: ActionInstall, Cause: cause, Replace: true}
	}
	return Decision{Action: ActionUpgrade, Cause: cause, Replace: true}
}
