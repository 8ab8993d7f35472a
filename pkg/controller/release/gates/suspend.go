// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
)

// Suspend is the gate of suspended objects. It does not block an object without pending
// changes, which stays ready.
func Suspend(_ context.Context, in release.GateInput) release.Verdict {
	if !in.Desired.Policy.Suspend {
		return release.Verdict{Remove: []string{releasev1alpha1.ConditionSuspended}}
	}
	message := "Nothing is installed, upgraded or repaired while " + in.SuspendedBy() + " is true"
	if why := in.Desired.SuspendedWhy; why != "" {
		message += ": " + why
	}
	verdict := release.Verdict{First: true, Condition: release.Condition(
		releasev1alpha1.ConditionSuspended, metav1.ConditionTrue, in.SuspendReason(), message)}
	if in.Plan.RollsOut() || in.Plan.Withheld {
		verdict.Blockers = []release.Blocker{in.SuspendBlocker()}
	}
	return verdict
}
