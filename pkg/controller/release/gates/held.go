// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// HeldBySuspend is how an object tells that [Suspend] holds it, for metrics.
func HeldBySuspend() kind.Gate {
	return kind.Gate{Name: "suspend", Condition: releasev1alpha1.ConditionSuspended, Status: metav1.ConditionTrue}
}

// HeldByWindow is how an object tells that [Window] holds it, for metrics.
func HeldByWindow() kind.Gate {
	return kind.Gate{Name: "window", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue, Reasons: windowReasons}
}

// HeldByLicense is how an object tells that [License] holds it, for metrics.
func HeldByLicense() kind.Gate {
	return kind.Gate{Name: "license", Condition: releasev1alpha1.ConditionLicensed, Status: metav1.ConditionFalse}
}
