// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
)

// eventsOf returns the events for the difference between two statuses. The following
// differences have an event: an unhealthy revision after its timeout, a change of the
// release, a new reason of Ready=False, uncorrected drift, and an adjusted manifest. Two events about the same
// fact, such as a rollback, are merged. Reasons in expected are part of normal operation,
// and emit no warning.
func eventsOf(before, after releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy, expected ...string) []event.Event {
	found := transitions(before, after, expected)
	if e, ok := driftTransition(before, after, policy); ok {
		found = append(found, e)
	}
	if isContested(before) && !isContested(after) {
		found = append(found, event.Normal("DriftCorrected", "Repair", "No other client changes an object again and again any more"))
	}
	if e, ok := adjustedTransition(before, after); ok {
		found = append(found, e)
	}
	return found
}

// isContested reports whether the status reports a contest, which began with a new reason of Ready.
func isContested(s releasev1alpha1.ReleaseStatus) bool {
	drifted := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDrifted)
	return drifted != nil && drifted.Reason == apimeta.ReasonRepeatedDrift
}

// adjustedTransition reports a new revision that is not exactly as its manifest.
func adjustedTransition(before, after releasev1alpha1.ReleaseStatus) (event.Event, bool) {
	is := meta.FindStatusCondition(after.Conditions, releasev1alpha1.ConditionAdjusted)
	was := meta.FindStatusCondition(before.Conditions, releasev1alpha1.ConditionAdjusted)
	if is == nil || was != nil && was.Message == is.Message {
		return event.Event{}, false
	}
	return event.Warning(is.Reason, "Reconcile", is.Message), true
}

func transitions(before, after releasev1alpha1.ReleaseStatus, expected []string) []event.Event {
	changed, isChanged := releaseTransition(before, after)
	unready, isUnready := readyTransition(before, after, expected)
	if isChanged && isUnready && changed.Reason == unready.Reason {
		changed.Note += ". " + unready.Note // The note ends with the failure that caused the change.
		return []event.Event{changed}
	}
	var found []event.Event
	if late, isLate := healthTransition(before, after); isLate && (!isUnready || unready.Reason != late.Reason) {
		found = append(found, late)
	}
	if isChanged {
		found = append(found, changed)
	}
	if isUnready {
		found = append(found, unready)
	}
	return found
}

func releaseTransition(before, after releasev1alpha1.ReleaseStatus) (event.Event, bool) {
	was, is := before.DeployedRelease, after.DeployedRelease
	if is == nil {
		return event.Event{}, false
	}
	what := fmt.Sprintf("revision %d of chart %s %s (%s)", is.Revision, is.Chart, is.ChartVersion, after.LastUpgradeReason)
	switch {
	case was == nil && after.LastUpgradeReason == releasev1alpha1.UpgradeReasonTakenOver:
		return event.Normal("TookOver", "TakeOver", fmt.Sprintf("Took over release %s with revision %d of chart %s %s",
			is.Name, is.Revision, is.Chart, is.ChartVersion)), true
	case was == nil || is.Revision < was.Revision:
		return event.Normal("Installed", "Install", "Installed "+what), true
	case was.Revision != is.Revision && after.LastUpgradeReason == releasev1alpha1.UpgradeReasonRemediation:
		return event.Warning("RolledBack", "Rollback", "Rolled back with "+what), true
	case was.Revision != is.Revision:
		return event.Normal("Upgraded", "Upgrade", "Upgraded to "+what), true
	}
	if done := lastSuccess(after); done == nil || apiequality.Semantic.DeepEqual(lastSuccess(before), done) {
		// Drift may have ended without a correction: another client undid it, or the
		// policy ignores it now.
		return event.Event{}, false
	}
	drifted := meta.FindStatusCondition(before.Conditions, releasev1alpha1.ConditionDrifted)
	if drifted != nil && meta.FindStatusCondition(after.Conditions, releasev1alpha1.ConditionDrifted) == nil {
		return event.Normal("DriftCorrected", "Repair", "Corrected "+drifted.Message), true
	}
	return event.Normal("DriftCorrected", "Repair", "Applied the objects again"), true
}

// lastSuccess returns the newest successful entry of the history; nil without a successful entry.
func lastSuccess(s releasev1alpha1.ReleaseStatus) *releasev1alpha1.HistoryEntry {
	for i := range s.History {
		if s.History[i].Outcome == releasev1alpha1.HistorySucceeded {
			return &s.History[i]
		}
	}
	return nil
}

// healthTransition reports a revision that did not become healthy in time, even if the
// next attempt follows at once.
func healthTransition(before, after releasev1alpha1.ReleaseStatus) (event.Event, bool) {
	late, failed := lateRevision(after), meta.FindStatusCondition(after.Conditions, releasev1alpha1.ConditionFailed)
	if late == 0 || late == lateRevision(before) || failed == nil || failed.Reason != releasev1alpha1.ReasonHealthTimeout {
		return event.Event{}, false
	}
	note := fmt.Sprintf("Revision %d did not become healthy in time", late)
	return event.Warning(releasev1alpha1.ReasonHealthTimeout, "Reconcile", note), true
}

// driftTransition reports drift that is not corrected. The correction of drift has its
// own event.
func driftTransition(before, after releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy) (event.Event, bool) {
	is := meta.FindStatusCondition(after.Conditions, releasev1alpha1.ConditionDrifted)
	if is == nil || driftMode(policy) != releasev1alpha1.DriftWarn {
		return event.Event{}, false
	}
	was := meta.FindStatusCondition(before.Conditions, releasev1alpha1.ConditionDrifted)
	if was != nil && was.Message == is.Message {
		return event.Event{}, false
	}
	return event.Warning("DriftDetected", "Reconcile", is.Message), true
}

// gateReasons are the reasons of changes that a gate holds, with the event type. A held
// change is no failure, and some holds are intended.
var gateReasons = map[string]string{
	releasev1alpha1.ReasonSuspendedBySpec:    corev1.EventTypeNormal,
	apimeta.ReasonSuspendedByAnnotation:      corev1.EventTypeNormal,
	apimeta.ReasonSuspendedByNamespace:       corev1.EventTypeNormal,
	apimeta.ReasonSuspendedByHandler:         corev1.EventTypeNormal,
	releasev1alpha1.ReasonOutsideWindow:      corev1.EventTypeNormal,
	releasev1alpha1.ReasonRolloutQueued:      corev1.EventTypeNormal,
	releasev1alpha1.ReasonRolloutHalted:      corev1.EventTypeWarning,
	releasev1alpha1.ReasonTakeoverHeld:       corev1.EventTypeWarning,
	releasev1alpha1.ReasonLicenseDenied:      corev1.EventTypeWarning,
	releasev1alpha1.ReasonLicenseUnavailable: corev1.EventTypeWarning,
}

// readyTransition reports a new reason of Ready=False. Starting pods emit no event, and
// neither does a retry of the same failure.
func readyTransition(before, after releasev1alpha1.ReleaseStatus, expected []string) (event.Event, bool) {
	is := meta.FindStatusCondition(after.Conditions, apimeta.ConditionReady)
	if is == nil || is.Status == metav1.ConditionTrue || is.Reason == apimeta.ReasonProgressing {
		return event.Event{}, false
	}
	if is.Reason == releasev1alpha1.ReasonUninstalled || is.Reason == apimeta.ReasonDeleting {
		return event.Event{}, false // The end of the deletion has its own event.
	}
	was := meta.FindStatusCondition(before.Conditions, apimeta.ConditionReady)
	if was != nil && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration {
		return event.Event{}, false
	}
	if eventType, isGate := gateReasons[is.Reason]; isGate {
		return event.Event{Type: eventType, Reason: "Held", Action: "Hold", Note: is.Reason + ": " + is.Message}, true
	}
	eventType := corev1.EventTypeWarning
	if slices.Contains(expected, is.Reason) {
		eventType = corev1.EventTypeNormal
	}
	return event.Event{Type: eventType, Reason: is.Reason, Action: "Reconcile", Note: is.Message}, true
}
