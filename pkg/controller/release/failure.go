// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// failureState is what an error is judged by, beside the error itself.
type failureState struct {
	// Action is what was attempted; none where the pass did not come to that.
	Action helm.Action
	// Transient is that of [Desired].
	Transient func(error) string
	// Deployed says that a release is deployed, and Reported that Ready says something.
	Deployed, Reported bool
}

// failure is what becomes of an error.
type failure struct {
	Reason string
	// Terminal says that trying again cannot help.
	Terminal bool
	// Counts says that an attempt failed, and Reports that Ready speaks of the error.
	Counts, Reports bool
}

// classify decides what becomes of an error. Errors that say nothing about the release,
// because nothing was attempted or there was no room to wait, do not count as failures. An
// error of observing is not reported while a release is deployed: that does as well as
// before.
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
	case errors.Is(err, controller.ErrTooManyWaiting):
		return failure{Reason: reason, Reports: true}
	default:
		return failure{Reason: reason, Terminal: terminal, Counts: true, Reports: true}
	}
}

// FailureReason puts an error of the engine into one word, and reports whether
// trying again cannot help.
func FailureReason(err error, action helm.Action) (reason string, terminal bool) {
	switch {
	case errorsAs[*helm.RenderError](err), errors.Is(err, helm.ErrInvalidChart):
		return releasev1alpha1.ReasonRenderFailed, true
	case errorsAs[*helm.OwnershipConflictError](err):
		return apimeta.ReasonOwnershipConflict, true
	case errorsAs[*helm.OutOfScopeError](err):
		return releasev1alpha1.ReasonOutOfScope, true
	case errorsAs[*helm.ReleaseTooLargeError](err):
		return releasev1alpha1.ReasonReleaseTooLarge, true
	case errorsAs[*helm.RefusedError](err):
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
