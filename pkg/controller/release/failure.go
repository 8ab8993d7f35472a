// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"

	"github.com/example/demoapp-controller/pkg/helm"
)

// The reasons that a failure has in a condition.
const (
	ReasonInstallFailed     = "InstallFailed"
	ReasonUpgradeFailed     = "UpgradeFailed"
	ReasonRepairFailed      = "RepairFailed"
	ReasonRollbackFailed    = "RollbackFailed"
	ReasonObserveFailed     = "ObserveFailed"
	ReasonRenderFailed      = "RenderFailed"
	ReasonRefused           = "Refused"
	ReasonOwnershipConflict = "OwnershipConflict"
	ReasonReleaseTooLarge   = "ReleaseTooLarge"
	ReasonOutOfScope        = "OutOfScope"
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
		return ReasonRenderFailed, true
	case errors.As(err, &conflict):
		return ReasonOwnershipConflict, true
	case errors.As(err, &outside):
		return ReasonOutOfScope, true
	case errors.As(err, &tooLarge):
		return ReasonReleaseTooLarge, true
	case errors.As(err, &refused):
		return ReasonRefused, true
	case action == helm.ActionInstall:
		return ReasonInstallFailed, helm.IsTerminal(err)
	case action == helm.ActionUpgrade:
		return ReasonUpgradeFailed, helm.IsTerminal(err)
	case action == helm.ActionRollback:
		return ReasonRollbackFailed, helm.IsTerminal(err)
	case action == helm.ActionRepair, action == helm.ActionReapply:
		return ReasonRepairFailed, helm.IsTerminal(err)
	default:
		return ReasonObserveFailed, helm.IsTerminal(err)
	}
}
