// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
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
		{"install", plain, helm.ActionInstall, releasev1alpha1.ReasonInstallFailed, false},
		{"upgrade", plain, helm.ActionUpgrade, releasev1alpha1.ReasonUpgradeFailed, false},
		{"repair", plain, helm.ActionRepair, releasev1alpha1.ReasonRepairFailed, false},
		{"reapply", plain, helm.ActionReapply, releasev1alpha1.ReasonRepairFailed, false},
		{"look", plain, "", apimeta.ReasonObserveFailed, false},
		{"look before nothing", plain, helm.ActionNone, apimeta.ReasonObserveFailed, false},
		{"template", &helm.RenderError{Chart: "web", Err: plain}, helm.ActionInstall, releasev1alpha1.ReasonRenderFailed, true},
		{"values", &helm.RenderError{Chart: "web", Err: plain}, "", releasev1alpha1.ReasonRenderFailed, true},
		{"chart", fmt.Errorf("load: %w", helm.ErrInvalidChart), helm.ActionUpgrade, releasev1alpha1.ReasonRenderFailed, true},
		{"refused install", refused, helm.ActionInstall, apimeta.ReasonRefused, true},
		{"refused repair", refused, helm.ActionRepair, apimeta.ReasonRefused, true},
		{"somebody else's object", conflict, helm.ActionInstall, apimeta.ReasonOwnershipConflict, true},
		{"somebody else's object beside another error", errors.Join(conflict, plain), helm.ActionInstall, apimeta.ReasonOwnershipConflict, true},
		{"too large", &helm.ReleaseTooLargeError{Release: "ns/a", Err: plain}, helm.ActionUpgrade, releasev1alpha1.ReasonReleaseTooLarge, true},
		{"wrapped", fmt.Errorf("execute: %w", refused), helm.ActionUpgrade, apimeta.ReasonRefused, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reason, terminal := FailureReason(test.err, test.action)
			equal(t, "reason", test.want, reason)
			equal(t, "terminal", test.terminal, terminal)
		})
	}
}
