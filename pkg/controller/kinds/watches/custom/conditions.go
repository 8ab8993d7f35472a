// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
)

// OwnConditions are the types of the conditions that the controller of a custom resource
// writes. All other conditions belong to other clients.
var OwnConditions = []string{
	apimeta.ConditionReady, apimeta.ConditionReconciling, apimeta.ConditionStalled,
	releasev1alpha1.ConditionInitialized, releasev1alpha1.ConditionDeployed, releasev1alpha1.ConditionFailed,
	releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionSuspended, releasev1alpha1.ConditionUpgradeHeld,
	releasev1alpha1.ConditionLicensed, releasev1alpha1.ConditionRemediated, releasev1alpha1.ConditionAdjusted,
	watchesv1alpha1.ConditionReleaseFailed, watchesv1alpha1.ConditionIrreconcilable, watchesv1alpha1.ConditionPaused,
}
