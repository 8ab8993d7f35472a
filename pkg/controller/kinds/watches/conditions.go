// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// deployedReasons are the reasons of Deployed that the upstream operators call otherwise.
var deployedReasons = map[string]string{
	releasev1alpha1.ReasonInstallSucceeded: watchesv1alpha1.ReasonInstallSuccessful,
	releasev1alpha1.ReasonUpgradeSucceeded: watchesv1alpha1.ReasonUpgradeSuccessful,
	releasev1alpha1.ReasonUninstalled:      watchesv1alpha1.ReasonUninstallSuccessful,
}

// failedReasons are the reasons of ReleaseFailed by the failed action. All other actions
// have ReasonReconcileError.
var failedReasons = map[releasev1alpha1.HistoryAction]string{
	releasev1alpha1.HistoryInstall:  watchesv1alpha1.ReasonInstallError,
	releasev1alpha1.HistoryUpgrade:  watchesv1alpha1.ReasonUpgradeError,
	releasev1alpha1.HistoryRollback: watchesv1alpha1.ReasonUpgradeError,
}

// setUpstream sets the conditions of the upstream operators from the conditions of the release. err
// is the error of the pass, and account the ServiceAccount of the release.
func setUpstream(conditions status.Editor, s *releasev1alpha1.ReleaseStatus, err error, account string) {
	if deployed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionDeployed); deployed != nil {
		if reason, ok := deployedReasons[deployed.Reason]; ok {
			deployed.Reason = reason
		}
	}
	conditions.Remove(watchesv1alpha1.ConditionReleaseFailed)
	if failed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionFailed); failed != nil {
		reason := watchesv1alpha1.ReasonReconcileError
		if s.Failures != nil && failedReasons[s.Failures.Action] != "" {
			reason = failedReasons[s.Failures.Action]
		}
		conditions.Set(watchesv1alpha1.ConditionReleaseFailed, metav1.ConditionTrue, reason, failed.Message)
	}
	if reason, text := irreconcilable(s.Conditions, err, account); reason != "" {
		conditions.Set(watchesv1alpha1.ConditionIrreconcilable, metav1.ConditionTrue, reason, text)
		return
	}
	conditions.Set(watchesv1alpha1.ConditionIrreconcilable, metav1.ConditionFalse, watchesv1alpha1.ReasonReconciled, "")
}

// irreconcilable returns the reason and message of Irreconcilable=True, or an empty reason.
func irreconcilable(conditions []metav1.Condition, err error, account string) (reason, text string) {
	ready := meta.FindStatusCondition(conditions, apimeta.ConditionReady)
	failed := meta.FindStatusCondition(conditions, releasev1alpha1.ConditionFailed)
	switch {
	case ssa.IsImpersonationRefused(err, account):
		return watchesv1alpha1.ReasonErrorGettingClient, err.Error()
	case ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == releasev1alpha1.ReasonValuesInvalid:
		return watchesv1alpha1.ReasonErrorGettingValues, ready.Message
	case errors.Is(err, release.ErrNotObserved), errors.Is(err, helm.ErrNotSynced):
		return watchesv1alpha1.ReasonErrorGettingReleaseState, err.Error()
	case ready != nil && ready.Status == metav1.ConditionUnknown && ready.Reason == apimeta.ReasonObserveFailed:
		return watchesv1alpha1.ReasonErrorGettingReleaseState, ready.Message
	case err != nil:
		return watchesv1alpha1.ReasonReconcileError, err.Error()
	case failed != nil:
		return watchesv1alpha1.ReasonReconcileError, failed.Message
	default:
		return "", ""
	}
}
