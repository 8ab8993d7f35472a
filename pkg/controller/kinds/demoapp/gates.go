// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates"
)

// measuredGates are the gates of DemoApps, for metrics. Key and values have no condition of
// their own, so they count while they are the reason of Ready.
func measuredGates() []kind.Gate {
	return []kind.Gate{
		gates.HeldBySuspend(), gates.HeldByWindow(), release.HeldByRollout(), release.HeldByTakeover(), gates.HeldByLicense(),
		{Name: "dependency", Condition: v1alpha1.ConditionDependencyReady, Status: metav1.ConditionFalse},
		{Name: "validation", Condition: v1alpha1.ConditionValidated, Status: metav1.ConditionFalse},
		kind.HeldFor("key", v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonKeyNotFound, v1alpha1.ReasonKeyInvalid),
		kind.HeldFor("values", releasev1alpha1.ReasonValuesNotFound, releasev1alpha1.ReasonValuesInvalid),
	}
}
