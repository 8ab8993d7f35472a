// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
)

func TestFailureReason(t *testing.T) {
	plain := errors.New("connection refused")
	refused := &helm.RefusedError{Object: object("Deployment", "a"), Err: plain}
	conflict := &helm.OwnershipConflictError{Object: object("Service", "a"), Holder: "another owner"}
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
		{"observe", plain, "", apimeta.ReasonObserveFailed, false},
		{"no action", plain, helm.ActionNone, apimeta.ReasonObserveFailed, false},
		{"template", &helm.RenderError{Chart: "web", Err: plain}, helm.ActionInstall, releasev1alpha1.ReasonRenderFailed, true},
		{"slow template", &helm.RenderTimeoutError{Chart: "web", Err: plain}, helm.ActionUpgrade, releasev1alpha1.ReasonRenderFailed, false},
		{"values", &helm.RenderError{Chart: "web", Err: plain}, "", releasev1alpha1.ReasonRenderFailed, true},
		{"chart", fmt.Errorf("load: %w", chart.ErrInvalid), helm.ActionUpgrade, releasev1alpha1.ReasonRenderFailed, true},
		{"refused install", refused, helm.ActionInstall, apimeta.ReasonRefused, true},
		{"refused repair", refused, helm.ActionRepair, apimeta.ReasonRefused, true},
		{"object of another owner", conflict, helm.ActionInstall, apimeta.ReasonOwnershipConflict, true},
		{"object of another owner, and another error", errors.Join(conflict, plain), helm.ActionInstall, apimeta.ReasonOwnershipConflict, true},
		{"too large", &helm.ReleaseTooLargeError{Release: "ns/a", Err: plain}, helm.ActionUpgrade, releasev1alpha1.ReasonReleaseTooLarge, true},
		{"wrapped", fmt.Errorf("execute: %w", refused), helm.ActionUpgrade, apimeta.ReasonRefused, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reason, terminal := FailureReason(test.err, test.action)
			expect.Equal(t, "reason", test.want, reason)
			expect.Equal(t, "terminal", test.terminal, terminal)
		})
	}
}

func TestClassify(t *testing.T) {
	plain := errors.New("connection refused")
	waiting := fmt.Errorf("hook: %w", controller.ErrTooManyWaiting)
	transient := func(err error) string {
		if errors.Is(err, plain) {
			return "KindTransient"
		}
		return ""
	}
	tests := []struct {
		name  string
		err   error
		state failureState
		want  failure
	}{
		{
			"an attempt fails", plain,
			failureState{Action: helm.ActionUpgrade, Deployed: true, Reported: true},
			failure{Reason: releasev1alpha1.ReasonUpgradeFailed, Counts: true, Reports: true},
		},
		{
			"an attempt is refused", &helm.RefusedError{Err: plain},
			failureState{Action: helm.ActionInstall},
			failure{Reason: apimeta.ReasonRefused, Terminal: true, Counts: true, Reports: true},
		},
		{
			"error that the kind classifies as transient", plain,
			failureState{Action: helm.ActionUpgrade, Transient: transient},
			failure{Reason: "KindTransient", Reports: true},
		},
		{
			"error that the kind does not classify as transient", waiting,
			failureState{Action: helm.ActionUpgrade, Transient: transient},
			failure{Reason: releasev1alpha1.ReasonUpgradeFailed, Reports: true},
		},
		{
			"the API server is not available", &helm.UnavailableError{Err: plain},
			failureState{Action: helm.ActionUpgrade, Deployed: true, Reported: true},
			failure{Reason: releasev1alpha1.ReasonUpgradeFailed, Reports: true},
		},
		{
			"one object is refused, and the API server is not available for another", errors.Join(&helm.RefusedError{Err: plain}, &helm.UnavailableError{Err: plain}),
			failureState{Action: helm.ActionUpgrade},
			failure{Reason: apimeta.ReasonRefused, Terminal: true, Counts: true, Reports: true},
		},
		{
			"too many workers wait", waiting,
			failureState{Action: helm.ActionInstall},
			failure{Reason: releasev1alpha1.ReasonInstallFailed, Reports: true},
		},
		{
			"observe fails while no release is deployed", plain,
			failureState{Reported: true},
			failure{Reason: apimeta.ReasonObserveFailed, Reports: true},
		},
		{
			"observe fails, nothing is reported", plain,
			failureState{Deployed: true},
			failure{Reason: apimeta.ReasonObserveFailed, Reports: true},
		},
		{
			"observe fails while deployed and reported", plain,
			failureState{Deployed: true, Reported: true},
			failure{Reason: apimeta.ReasonObserveFailed},
		},
		{
			"values fail to render", &helm.RenderError{Chart: "web", Err: plain},
			failureState{Deployed: true, Reported: true},
			failure{Reason: releasev1alpha1.ReasonRenderFailed, Terminal: true, Final: true, Counts: true, Reports: true},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect.Equal(t, "failure", test.want, classify(test.err, test.state)) })
	}
}
