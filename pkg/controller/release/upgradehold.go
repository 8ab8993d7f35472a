// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// holdUpgrade returns the verdict that holds an upgrade.
func holdUpgrade(reason, message string, stalled bool) Verdict {
	return Verdict{
		Condition: Condition(releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, reason, message),
		Blockers:  []Blocker{{Reason: reason, Message: message, Stalled: stalled}},
	}
}

// endHold returns the verdict that ends a hold for one of the reasons. UpgradeHeld stays if it
// has another reason.
func (in GateInput) endHold(reasons []string) Verdict {
	if in.isHeldFor(reasons) {
		return Verdict{Remove: []string{releasev1alpha1.ConditionUpgradeHeld}}
	}
	return Verdict{}
}

// isHeldFor reports whether UpgradeHeld has one of the reasons.
func (in GateInput) isHeldFor(reasons []string) bool {
	condition := meta.FindStatusCondition(in.Status.Conditions, releasev1alpha1.ConditionUpgradeHeld)
	return condition != nil && slices.Contains(reasons, condition.Reason)
}

// isHeld reports whether an earlier gate holds the upgrade.
func (in GateInput) isHeld() bool {
	return meta.FindStatusCondition(in.Status.Conditions, releasev1alpha1.ConditionUpgradeHeld) != nil
}
