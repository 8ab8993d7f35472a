// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
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
