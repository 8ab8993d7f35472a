// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDriftOf(t *testing.T) {
	app := newSample(func(app *sample) {
		app.Status.ObservedGeneration = 1
		app.Status.DeployedRelease = &releasev1alpha1.DeployedRelease{Name: "a"}
	})
	tests := []struct {
		name     string
		app      *sample
		decision helm.Decision
		want     string
	}{
		{"nothing to do", app, helm.Decision{Action: helm.ActionNone}, ""},
		{"changed inputs", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}, ""},
		{"failed attempt", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed}, ""},
		{"interrupted", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInterrupted}, ""},
		{"unknown", app, helm.Decision{Action: helm.ActionReapply, Cause: helm.CauseBaselineUnknown}, ""},
		{"first install", newSample(), helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}, ""},
		{"another client is changing the release", app, helm.Decision{Action: helm.ActionWait, Cause: helm.CauseReleaseChanged}, ""},
		{"uninstalled", app, helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}, releasev1alpha1.ReasonReleaseChanged},
		{"rolled back", app, helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseReleaseChanged}, releasev1alpha1.ReasonReleaseChanged},
		{"drift", app, helm.Decision{Action: helm.ActionRepair, Cause: helm.CauseDrift}, releasev1alpha1.ReasonObjectsChanged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &subject{status: &test.app.Status, written: func() *releasev1alpha1.ReleaseStatus { return &test.app.Status }}
			plan := Plan{Decision: test.decision, Observed: helm.Snapshot{Record: &record.Record{Revision: 2, Status: "deployed"}}}
			reason, _ := driftOf(s, plan, plan.Decision)
			expect.Equal(t, "reason", test.want, reason)
		})
	}
}
