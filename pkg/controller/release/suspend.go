// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm"
)

// heldBySuspend says how the status of an object shows that [gateSuspend] holds it, for metrics.
func heldBySuspend() kind.Gate {
	return kind.Gate{Name: "suspend", Condition: releasev1alpha1.ConditionSuspended, Status: metav1.ConditionTrue}
}

// gateSuspend is the gate of suspended objects. It does not block an object without pending
// changes, which stays ready.
func gateSuspend(_ context.Context, in GateInput) Verdict {
	if !in.Desired.Policy.Suspend {
		return Verdict{Remove: []string{releasev1alpha1.ConditionSuspended}}
	}
	message := "Nothing is installed, upgraded or repaired while " + in.suspendedBy() + " is true"
	if why := in.Desired.SuspendedWhy; why != "" {
		message += ": " + why
	}
	verdict := Verdict{First: true, Condition: Condition(
		releasev1alpha1.ConditionSuspended, metav1.ConditionTrue, in.suspendReason(), message)}
	if in.Plan.RollsOut() || in.Plan.Withheld {
		verdict.Blockers = []Blocker{in.suspendBlocker()}
	}
	return verdict
}

// suspend withholds the changes that the gates allow, mainly the correction of drift. It
// reports the drift that remains.
func suspend(s *subject, f Facts, found assessment) assessment {
	if !f.Desired.Policy.Suspend {
		return found
	}
	held := found.plan.Withheld
	found.plan = found.plan.suspend()
	if found.plan.Withheld && !held {
		found.blockers = append([]Blocker{f.suspendBlocker()}, found.blockers...)
	}
	reason, message := suspendedDrift(s, found.plan)
	switch {
	case reason == "":
		s.Conditions().Remove(releasev1alpha1.ConditionDrifted)
	case reason == releasev1alpha1.ReasonReleaseChanged || driftMode(f.Desired.Policy) != releasev1alpha1.DriftWarn:
		s.Conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
	}
	return found
}

// suspendFor suspends the release of a paused object, unless the binding suspends it.
func (d *Desired) suspendFor(pause kind.Pause, object metav1.Object) {
	d.SuspendedWhy = cmp.Or(pause.Why, controller.PausedReason(object))
	if pause.By != "" && !d.Policy.Suspend {
		d.Policy.Suspend, d.SuspendedBy, d.SuspendReason = true, pause.By, pause.Reason
	}
}

// suspendReason returns the reason of the condition Suspended.
func (f Facts) suspendReason() string {
	return cmp.Or(f.Desired.SuspendReason, releasev1alpha1.ReasonSuspendedBySpec)
}

// suspendBlocker is the blocker of a change that spec.suspend holds. It precedes all
// other blockers, because they apply only when the object is no longer suspended.
func (f Facts) suspendBlocker() Blocker {
	return Blocker{Reason: f.suspendReason(), Message: "A change waits until " + f.suspendedBy() + " is false"}
}

// suspendedBy returns the field or annotation that suspends the object.
func (f Facts) suspendedBy() string { return cmp.Or(f.Desired.SuspendedBy, "spec.suspend") }

// suspendedDrift describes the changes of other clients, including those that a held
// upgrade would overwrite.
func suspendedDrift(s *subject, plan Plan) (reason, message string) {
	if drifts := plan.Observed.Drifts; len(drifts) > 0 {
		return driftReason(drifts), Names(drifts)
	}
	return driftOf(s, plan, plan.Next)
}

// missingObjects names the missing objects of a suspended release. The health summary
// does not count them, because a missing object has no health.
func missingObjects(f Facts, plan Plan) string {
	if !plan.Suspended {
		return ""
	}
	var missing []string
	for _, drift := range plan.Observed.Drifts {
		if drift.Kind == helm.DriftMissing {
			missing = append(missing, drift.Object.Kind+" "+drift.Object.Name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "Missing while " + f.suspendedBy() + " is true: " + strings.Join(missing, ", ")
}
