// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm"
)

// heldByTakeover says how the status of an object shows that the takeover of its release waits for consent, for metrics.
func heldByTakeover() kind.Gate {
	return kind.Gate{
		Name: "takeover", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue,
		Reasons: []string{releasev1alpha1.ReasonTakeoverHeld},
	}
}

// takeoverShown returns the condition by which the status shows that the takeover in the plan waits for
// consent; nil if the status has no such condition, or one of another spec.
func takeoverShown(f Facts, plan Plan, s releasev1alpha1.ReleaseStatus) *metav1.Condition {
	held := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionUpgradeHeld)
	record := plan.Observed.Record
	if held == nil || held.Reason != releasev1alpha1.ReasonTakeoverHeld || held.ObservedGeneration != f.Generation ||
		!plan.RollsOut() || record == nil || record.Own {
		return nil
	}
	return held.DeepCopy()
}

// consents returns what a user consents to: to a takeover that the status has shown before the user asked
// for an upgrade, and to nothing else.
func (s *subject) consents(f Facts, plan Plan) func(*helm.ConsentError) bool {
	shown := takeoverShown(f, plan, *s.status)
	if f.ForceAt == "" || shown == nil {
		return nil
	}
	return func(needed *helm.ConsentError) bool { return takeoverBlocker(f, needed).Message == shown.Message }
}

// holdTakeover reports whether an action ended because a takeover needs consent, and reports the hold. A
// request that was made before the hold was shown is handled with it. Otherwise, holdTakeover ends a hold
// that an earlier pass reported.
func (l *Lifecycle) holdTakeover(s *subject, f Facts, plan Plan, err error) (Blocker, bool) {
	var needed *helm.ConsentError
	if !errors.As(err, &needed) {
		if takeoverShown(f, plan, *s.status) != nil && rollsOut(plan.Decision.Action) {
			s.Conditions().Remove(releasev1alpha1.ConditionUpgradeHeld)
		}
		return Blocker{}, false
	}
	blocker := takeoverBlocker(f, needed)
	s.Conditions().Set(releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, blocker.Reason, blocker.Message)
	answerForce(s.status, f, plan.Decision.Action)
	s.RequeueAfter(l.noteRefusal(f, plan, *s.status, blocker, needed))
	return blocker, true
}

// takeoverBlocker is the blocker of a takeover that needs consent.
func takeoverBlocker(f Facts, needed *helm.ConsentError) Blocker {
	chart := f.Desired.Release.Chart
	why := fmt.Sprintf("The release waits for consent, because with chart %s %s %v", chart.Name(), chart.Version(), needed)
	return Blocker{
		Reason: releasev1alpha1.ReasonTakeoverHeld, Message: f.Desired.Redactor.Text(why) + "; to consent, run: " + consentCommand(f),
	}
}

// consentCommand is the command that consents to the takeover of an object's release.
func consentCommand(f Facts) string {
	object := f.Key.Name
	if owner := f.Desired.Release.Owner; owner != nil {
		object = strings.ToLower(owner.Kind) + "/" + object
	}
	command := "kubectl demoapp retry " + object
	if f.Key.Namespace != "" {
		command += " --namespace=" + f.Key.Namespace
	}
	return command
}
