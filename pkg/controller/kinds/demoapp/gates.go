// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
)

// measuredGates are the gates of DemoApps for metrics, in addition to the gates of every release. Key
// and values have no condition of their own, so they count while they are the reason of Ready.
func measuredGates() []kind.Gate {
	return []kind.Gate{
		{Name: "dependency", Condition: v1alpha1.ConditionDependencyReady, Status: metav1.ConditionFalse, Reasons: []string{v1alpha1.ReasonWaiting}},
		{Name: "dependency", Condition: v1alpha1.ConditionDependencyReady, Status: metav1.ConditionFalse, NeedsUser: true},
		{Name: "validation", Condition: v1alpha1.ConditionValidated, Status: metav1.ConditionFalse, NeedsUser: true},
		kind.HeldFor("key", v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonKeyNotFound, v1alpha1.ReasonKeyInvalid),
		kind.HeldFor("values", releasev1alpha1.ReasonValuesNotFound, releasev1alpha1.ReasonValuesInvalid),
	}
}
