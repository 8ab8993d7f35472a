// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// failureState is the context in which an error is classified.
type failureState struct {
	// Action is the attempted action; empty if the pass failed before an action.
	Action helm.Action
	// Transient is Desired.Transient.
	Transient func(error) string
	// Deployed says that a release is deployed. Reported says that Ready is set.
	Deployed, Reported bool
}

// failure is the classification of an error.
type failure struct {
	Reason string
	// Terminal says that a quick retry cannot succeed.
	Terminal bool
	// Final says that only a change of the inputs helps, see helm.IsFinal.
	Final bool
	// Counts says that an attempt failed. Reports says that Ready reports the error.
	Counts, Reports bool
	// CausedByObject is FailureCounts.CausedByObject.
	CausedByObject bool
}

// classify decides how an error is handled. Errors that say nothing about the release do not count
// as failures: nothing was attempted, too many workers wait already, or a server could not do its
// work. A failed observation is not reported while a release is deployed, because that release
// keeps running.
func classify(err error, state failureState) failure {
	if state.Transient != nil {
		if reason := state.Transient(err); reason != "" {
			return failure{Reason: reason, Reports: true}
		}
	}
	reason, terminal := FailureReason(err, state.Action)
	switch {
	case reason == apimeta.ReasonObserveFailed && !terminal:
		return failure{Reason: reason, Reports: !state.Reported || !state.Deployed}
	case errors.Is(err, controller.ErrTooManyWaiting), !terminal && isError[*helm.UnavailableError](err):
		return failure{Reason: reason, Reports: true}
	default:
		return failure{Reason: reason, Terminal: terminal, Final: helm.IsFinal(err), Counts: true, Reports: true}
	}
}

// FailureReason returns the reason for an error of the engine, and reports whether a
// quick retry cannot succeed.
func FailureReason(err error, action helm.Action) (reason string, terminal bool) {
	switch {
	case isError[*helm.RenderError](err), errors.Is(err, chart.ErrInvalid):
		return releasev1alpha1.ReasonRenderFailed, true
	case isError[*helm.RenderTimeoutError](err):
		return releasev1alpha1.ReasonRenderFailed, false
	case isError[*helm.OwnershipConflictError](err):
		return apimeta.ReasonOwnershipConflict, true
	case isError[*helm.OutOfScopeError](err):
		return releasev1alpha1.ReasonOutOfScope, true
	case isError[*helm.ReleaseTooLargeError](err):
		return releasev1alpha1.ReasonReleaseTooLarge, true
	case isError[*helm.RefusedError](err):
		return apimeta.ReasonRefused, true
	case action == helm.ActionInstall:
		return releasev1alpha1.ReasonInstallFailed, helm.IsTerminal(err)
	case action == helm.ActionUpgrade:
		return releasev1alpha1.ReasonUpgradeFailed, helm.IsTerminal(err)
	case action == helm.ActionRollback:
		return releasev1alpha1.ReasonRollbackFailed, helm.IsTerminal(err)
	case isRepair(action):
		return releasev1alpha1.ReasonRepairFailed, helm.IsTerminal(err)
	default:
		return apimeta.ReasonObserveFailed, helm.IsTerminal(err)
	}
}

// isCausedByObject reports whether the object or its namespace caused an error of an attempt,
// and not the chart: a name that another owner has, a refusal by the API server, a quota or
// admission, or values that do not meet the schema. The tenants of a namespace can cause such
// errors at any time.
func isCausedByObject(err error) bool {
	return isError[*helm.OwnershipConflictError](err) || isError[*helm.RefusedError](err) || isError[*helm.ReleaseTooLargeError](err) ||
		errors.Is(err, chart.ErrInvalidValues) || apierrors.IsForbidden(err)
}
