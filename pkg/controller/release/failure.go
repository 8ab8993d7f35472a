// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// FailureReason puts an error of the engine into one word, and reports whether
// trying again cannot help.
func FailureReason(err error, action helm.Action) (reason string, terminal bool) {
	var (
		render   *helm.RenderError
		refused  *helm.RefusedError
		conflict *helm.OwnershipConflictError
		tooLarge *helm.ReleaseTooLargeError
		outside  *helm.OutOfScopeError
	)
	switch {
	case errors.As(err, &render), errors.Is(err, helm.ErrInvalidChart):
		return releasev1alpha1.ReasonRenderFailed, true
	case errors.As(err, &conflict):
		return apimeta.ReasonOwnershipConflict, true
	case errors.As(err, &outside):
		return releasev1alpha1.ReasonOutOfScope, true
	case errors.As(err, &tooLarge):
		return releasev1alpha1.ReasonReleaseTooLarge, true
	case errors.As(err, &refused):
		return apimeta.ReasonRefused, true
	case action == helm.ActionInstall:
		return releasev1alpha1.ReasonInstallFailed, helm.IsTerminal(err)
	case action == helm.ActionUpgrade:
		return releasev1alpha1.ReasonUpgradeFailed, helm.IsTerminal(err)
	case action == helm.ActionRollback:
		return releasev1alpha1.ReasonRollbackFailed, helm.IsTerminal(err)
	case action == helm.ActionRepair, action == helm.ActionReapply:
		return releasev1alpha1.ReasonRepairFailed, helm.IsTerminal(err)
	default:
		return apimeta.ReasonObserveFailed, helm.IsTerminal(err)
	}
}
