// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"testing"

	"github.com/example/demoapp-controller/pkg/helm"
)

func TestFailureReason(t *testing.T) {
	plain := errors.New("connection refused")
	refused := &helm.RefusedError{Object: object("Deployment", "a"), Err: plain}
	conflict := &helm.OwnershipConflictError{Object: object("Service", "a"), Holder: "somebody"}
	tests := []struct {
		name     string
		err      error
		action   helm.Action
		want     string
		terminal bool
	}{
		{"install", plain, helm.ActionInstall, ReasonInstallFailed, false},
		{"upgrade", plain, helm.ActionUpgrade, ReasonUpgradeFailed, false},
		{"repair", plain, helm.ActionRepair, ReasonRepairFailed, false},
		{"reapply", plain, helm.ActionReapply, ReasonRepairFailed, false},
		{"look", plain, "", ReasonObserveFailed, false},
		{"look before nothing", plain, helm.ActionNone, ReasonObserveFailed, false},
		{"template", &helm.RenderError{Chart: "web", Err: plain}, helm.ActionInstall, ReasonRenderFailed, true},
		{"values", &helm.RenderError{Chart: "web", Err: plain}, "", ReasonRenderFailed, true},
		{"chart", fmt.Errorf("load: %w", helm.ErrInvalidChart), helm.ActionUpgrade, ReasonRenderFailed, true},
		{"refused install", refused, helm.ActionInstall, ReasonRefused, true},
		{"refused repair", refused, helm.ActionRepair, ReasonRefused, true},
		{"somebody else's object", conflict, helm.ActionInstall, ReasonOwnershipConflict, true},
		{"somebody else's object beside another error", errors.Join(conflict, plain), helm.ActionInstall, ReasonOwnershipConflict, true},
		{"too large", &helm.ReleaseTooLargeError{Release: "ns/a", Err: plain}, helm.ActionUpgrade, ReasonReleaseTooLarge, true},
		{"wrapped", fmt.Errorf("execute: %w", refused), helm.ActionUpgrade, ReasonRefused, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reason, terminal := FailureReason(test.err, test.action)
			equal(t, "reason", test.want, reason)
			equal(t, "terminal", test.terminal, terminal)
		})
	}
}
