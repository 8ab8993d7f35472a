// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/message"
)

// driftOf describes the changes of other clients. It returns nothing if the decision is
// not about drift.
func driftOf(s *subject, plan Plan, decision helm.Decision) (reason, message string) {
	switch decision.Cause {
	case helm.CauseDrift:
		return driftReason(decision.Drifts), Names(decision.Drifts)
	case helm.CauseReleaseChanged:
		if decision.Action == helm.ActionWait {
			return "", ""
		}
		record := plan.Observed.Record
		return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("Revision %d (%s) of the release was not made by this operator", record.Revision, record.Status)
	case helm.CauseNotInstalled:
		if deployed := s.written().DeployedRelease; deployed != nil && s.status.ObservedGeneration >= 0 {
			return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("Release %s was uninstalled", deployed.Name)
		}
	case helm.CauseUnverified:
		if record := plan.Observed.Record; !isUnrecorded(plan, *s.status) {
			return releasev1alpha1.ReasonReleaseChanged, fmt.Sprintf("The record of revision %d was changed", record.Revision)
		}
	case helm.CauseNone, helm.CauseInputsChanged, helm.CauseFailed, helm.CauseInterrupted, helm.CauseBaselineUnknown,
		helm.CauseRequested, helm.CauseOtherOwner:
	}
	return "", ""
}

// applyDriftPolicy removes from the plan the drift that the policy does not correct, and the
// drift whose correction waits.
func (l *Lifecycle) applyDriftPolicy(ctx context.Context, s *subject, f Facts, plan Plan) (Plan, error) {
	plan, err := l.applyDriftMode(ctx, s, f, plan)
	if err != nil || plan.Decision.Action != helm.ActionRepair {
		return plan, err
	}
	return l.holdContested(ctx, s, f, plan), nil
}

// applyDriftMode removes from the plan the drift that the policy does not correct.
// Drift that is only reported, or that may be of ignored fields, is explained first.
func (l *Lifecycle) applyDriftMode(ctx context.Context, s *subject, f Facts, plan Plan) (Plan, error) {
	if plan.Decision.Action != helm.ActionRepair {
		return plan, nil
	}
	mode, rules := driftMode(f.Desired.Policy), IgnoreRules(f.Desired.Policy)
	if mode == releasev1alpha1.DriftOff {
		plan.Observed.Drifts = nil
		return plan.leaveDrift(), nil
	}
	mayBeIgnored := func(drift helm.Drift) bool {
		return len(fields.IgnoredPaths(rules, drift.Object.Kind, drift.Object.Name)) > 0
	}
	if mode == releasev1alpha1.DriftCorrect && !slices.ContainsFunc(plan.Decision.Drifts, mayBeIgnored) {
		return plan, nil
	}
	found, err := l.explain(ctx, *s.status, f, plan)
	if err != nil {
		return plan, err
	}
	left := leftOver(s.status.Inventory, found, mode)
	plan.Decision.Drifts, plan.Observed.Drifts = driftsOf(left), driftsOf(left)
	if len(left) > 0 && mode == releasev1alpha1.DriftWarn {
		s.Conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, driftReason(driftsOf(left)), f.Desired.Redactor.Text(describe(left)))
	}
	if len(left) == 0 || mode == releasev1alpha1.DriftWarn {
		plan = plan.leaveDrift()
	}
	return plan, nil
}

// countDrift counts the objects whose drift the policy corrects or reports, each once until
// it is as desired again.
func (l *Lifecycle) countDrift(f Facts, plan Plan) {
	if driftMode(f.Desired.Policy) == releasev1alpha1.DriftOff || len(plan.Observed.Drifts) == 0 {
		l.drifted.Forget(f.Key)
		return
	}
	counted, _ := l.drifted.Get(f.Key)
	drifted, added := objectsOf(plan.Observed.Drifts), 0
	for object := range drifted {
		if !counted[object] {
			added++
		}
	}
	l.drift.Detected(added)
	l.drifted.Set(f.Key, drifted)
}

// countCorrected counts what a successful action restored: drifted objects, or the release itself.
// An action that applies the whole release restores all objects whose drift was counted.
func (l *Lifecycle) countCorrected(f Facts, s releasev1alpha1.ReleaseStatus, plan Plan) {
	var restored map[helm.Identity]bool
	drifted, _ := l.drifted.Get(f.Key)
	switch plan.Decision.Action {
	case helm.ActionRepair:
		restored = objectsOf(plan.Decision.Drifts)
	case helm.ActionInstall, helm.ActionUpgrade, helm.ActionReapply, helm.ActionRollback:
		restored = drifted
	case helm.ActionNone, helm.ActionWait, helm.ActionRefuse:
		return
	}
	for object := range restored {
		l.corrections.Corrected(l.drift, f.Key.Namespace, f.drifted(object), plan.Observed.Writers[object], f.Now)
	}
	if isReleaseChange(s, plan.Decision) {
		l.corrections.Corrected(controller.DriftCount{}, f.Key.Namespace, f.drifted(theRelease(f)), 0, f.Now)
	}
	left := maps.Clone(drifted)
	maps.DeleteFunc(left, func(object helm.Identity, _ bool) bool { return restored[object] })
	l.drifted.Set(f.Key, left)
}

// objectsOf returns the objects that have drifted. An object may have several drifts.
func objectsOf(drifts []helm.Drift) map[helm.Identity]bool {
	objects := map[helm.Identity]bool{}
	for _, drift := range drifts {
		objects[drift.Object.Identity()] = true
	}
	return objects
}

// explain asks the engine for the drifted fields, once for each state of the objects.
func (l *Lifecycle) explain(ctx context.Context, s releasev1alpha1.ReleaseStatus, f Facts, plan Plan) ([]helm.Explanation, error) {
	state := fmt.Sprintf("%d %s", f.Generation, plan.Observed.Drifted)
	if known, ok := l.explanations.Get(f.Key); ok && known.state == state {
		return known.found, nil
	}
	baseline := Baseline(s, f.Desired.Policy, f.Desired.Release.Scope)
	baseline.LeaveDrift = driftMode(f.Desired.Policy) == releasev1alpha1.DriftWarn
	found, err := l.engine.Explain(ctx, f.Desired.Release, baseline, plan.Decision.Drifts)
	if err != nil {
		return nil, fmt.Errorf("explain drift: %w", err)
	}
	l.explanations.Set(f.Key, explained{state, found})
	return found, nil
}

// explained caches the explanations of drift that is not corrected.
type explained struct {
	state string
	found []helm.Explanation
}

// leftOver returns the drift to correct or report. If only ignored fields differ, the
// live object becomes the new baseline in the inventory. If another client restored all
// values of an object, it still owns their fields, and could change them unseen. In mode
// Correct, such an object is applied again. In mode Warn, there is nothing to report.
func leftOver(inventory []releasev1alpha1.InventoryEntry, found []helm.Explanation, mode releasev1alpha1.DriftMode) []helm.Explanation {
	var left []helm.Explanation
	for _, explanation := range found {
		entry := inventoryEntry(inventory, explanation.Drift.Object.Identity())
		switch {
		case explanation.Acceptable:
			if explanation.Drift.Kind == helm.DriftChanged && entry != nil {
				entry.Digest = explanation.Live.Digest
			}
		case mode == releasev1alpha1.DriftWarn && isPutBack(explanation, entry):
			// The entry stays, so the next change is drift again.
		default:
			left = append(left, explanation)
		}
	}
	return left
}

// isPutBack reports whether another client changed an object and restored all its values.
func isPutBack(explanation helm.Explanation, entry *releasev1alpha1.InventoryEntry) bool {
	if len(explanation.Fields) > 0 {
		return false
	}
	changed := explanation.Drift.Kind == helm.DriftChanged && entry != nil && entry.UID == explanation.Live.UID
	return changed || explanation.Drift.Kind == helm.DriftForeign
}

// inventoryEntry returns the inventory entry of an object; nil for an unknown object.
func inventoryEntry(inventory []releasev1alpha1.InventoryEntry, object helm.Identity) *releasev1alpha1.InventoryEntry {
	for i := range inventory {
		if referenceOf(inventory[i]).Identity() == object {
			return &inventory[i]
		}
	}
	return nil
}

func driftsOf(explanations []helm.Explanation) []helm.Drift {
	var drifts []helm.Drift
	for _, explanation := range explanations {
		drifts = append(drifts, explanation.Drift)
	}
	return drifts
}

// driftReason distinguishes changed fields of the chart from fields that other clients
// added.
func driftReason(drifts []helm.Drift) string {
	changed := func(drift helm.Drift) bool { return drift.Kind != helm.DriftForeign }
	if len(drifts) > 0 && !slices.ContainsFunc(drifts, changed) {
		return releasev1alpha1.ReasonForeignFields
	}
	return releasev1alpha1.ReasonObjectsChanged
}

// maxNamedFields limits how many fields of an object a message names.
const maxNamedFields = 10

// describe names objects and fields, never values.
func describe(explanations []helm.Explanation) string {
	var parts []string
	for _, explanation := range explanations {
		part := fmt.Sprintf("%s %s (%s)", explanation.Drift.Object.Kind, explanation.Drift.Object.Name,
			strings.ToLower(string(explanation.Drift.Kind)))
		if len(explanation.Fields) > 0 {
			part += ": " + message.List(explanation.Fields, maxNamedFields)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
