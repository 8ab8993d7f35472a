// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Condition returns a condition of a DemoApp. An absent condition is returned without a status.
func Condition(app *v1alpha1.DemoApp, conditionType string) metav1.Condition {
	if condition := meta.FindStatusCondition(app.Status.Conditions, conditionType); condition != nil {
		return *condition
	}
	return metav1.Condition{Type: conditionType}
}

// Has reports whether a condition has this status and this reason. An empty reason matches any.
func Has(app *v1alpha1.DemoApp, conditionType string, status metav1.ConditionStatus, reason string) bool {
	condition := Condition(app, conditionType)
	return condition.Status == status && (reason == "" || condition.Reason == reason)
}

// IsAbsent reports whether a DemoApp does not have a condition.
func IsAbsent(app *v1alpha1.DemoApp, conditionType string) bool {
	return Condition(app, conditionType).Status == ""
}

// IsReady reports whether a DemoApp is ready at its newest generation and has no abnormal
// condition.
func IsReady(app *v1alpha1.DemoApp) bool {
	return Has(app, apimeta.ConditionReady, metav1.ConditionTrue, "") &&
		Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation &&
		app.Status.ObservedGeneration == app.Generation
}

// IsStalled reports whether a DemoApp is stalled at its newest generation for this reason.
func IsStalled(app *v1alpha1.DemoApp, reason string) bool {
	return Has(app, apimeta.ConditionStalled, metav1.ConditionTrue, reason) &&
		Condition(app, apimeta.ConditionStalled).ObservedGeneration == app.Generation
}

// Revision returns the revision of the deployed release; 0 without one.
func Revision(app *v1alpha1.DemoApp) int64 {
	if app.Status.DeployedRelease == nil {
		return 0
	}
	return app.Status.DeployedRelease.Revision
}

// UpgradeReason returns the reason of the last upgrade. The field lastUpgradeReason may already
// have the reason of a repair: the Deployment controller may write an annotation twice within the
// second of an upgrade. In managedFields, that looks like a write under the operator's name.
func UpgradeReason(app *v1alpha1.DemoApp) releasev1alpha1.UpgradeReason {
	for _, entry := range app.Status.History {
		if entry.Action == releasev1alpha1.HistoryUpgrade {
			return entry.Reason
		}
	}
	return ""
}
