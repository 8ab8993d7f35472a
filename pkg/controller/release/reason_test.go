// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func TestReasonFor(t *testing.T) {
	const resync, retry = controller.PeriodicResync, controller.Retry
	deployed := Circumstances{Deployed: true}
	with := func(c Circumstances, change func(*Circumstances)) Circumstances {
		change(&c)
		return c
	}
	spec := func(c *Circumstances) { c.SpecChanged = true }
	ready := func(c *Circumstances) { c.DependencyBecameReady = true }
	failed := func(c *Circumstances) { c.Failed = true }
	supported := func(c *Circumstances) { c.CapabilitiesChanged = true }
	newChart := func(c *Circumstances) { c.ChartChanged = true }
	because := func(why controller.Reason) func(*Circumstances) {
		return func(c *Circumstances) { c.Why = why }
	}
	tests := []struct {
		name  string
		cause helm.Cause
		c     Circumstances
		want  releasev1alpha1.UpgradeReason
	}{
		{"first install", helm.CauseNotInstalled, Circumstances{SpecChanged: true}, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"first install after a wait", helm.CauseNotInstalled, with(Circumstances{SpecChanged: true}, ready), releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady},
		{"first install after a refusal without a record", helm.CauseNotInstalled, with(Circumstances{}, failed), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"first install on the periodic resync", helm.CauseNotInstalled, with(Circumstances{SpecChanged: true}, because(resync)), releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"uninstalled by hand", helm.CauseNotInstalled, deployed, releasev1alpha1.UpgradeReasonDriftDetected},
		{"uninstalled by hand, without an event", helm.CauseNotInstalled, with(deployed, because(resync)), releasev1alpha1.UpgradeReasonPeriodicResync},
		{"uninstalled by hand and a new spec", helm.CauseNotInstalled, with(deployed, spec), releasev1alpha1.UpgradeReasonSpecGenerationChanged},

		{"new spec", helm.CauseInputsChanged, with(deployed, spec), releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"new key in a Secret", helm.CauseInputsChanged, deployed, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"new spec after a wait", helm.CauseInputsChanged, with(with(deployed, spec), ready), releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady},
		{"new spec that was refused", helm.CauseInputsChanged, with(with(deployed, spec), failed), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"new chart", helm.CauseInputsChanged, with(deployed, newChart), releasev1alpha1.UpgradeReasonChartChanged},
		{"new chart and spec", helm.CauseInputsChanged, with(with(deployed, newChart), spec), releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"new chart that was refused", helm.CauseInputsChanged, with(with(deployed, newChart), failed), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"new chart after a wait", helm.CauseInputsChanged, with(with(deployed, newChart), ready), releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady},
		{"changed capabilities", helm.CauseInputsChanged, with(deployed, supported), releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged},
		{"changed capabilities and a new spec", helm.CauseInputsChanged, with(with(deployed, supported), spec), releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"changed capabilities after a failure", helm.CauseInputsChanged, with(with(deployed, supported), failed), releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged},
		{"changed capabilities after a wait", helm.CauseInputsChanged, with(with(deployed, supported), ready), releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady},
		{"new inputs found on the periodic resync", helm.CauseInputsChanged, with(deployed, because(resync)), releasev1alpha1.UpgradeReasonSpecGenerationChanged},

		{"attempt failed", helm.CauseFailed, with(deployed, failed), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"attempt failed, ignoring other circumstances", helm.CauseFailed, with(with(with(deployed, ready), newChart), because(resync)), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"attempt was interrupted", helm.CauseInterrupted, with(deployed, spec), releasev1alpha1.UpgradeReasonRetryAfterFailure},
		{"first attempt was interrupted", helm.CauseInterrupted, Circumstances{SpecChanged: true}, releasev1alpha1.UpgradeReasonRetryAfterFailure},

		{"requested", helm.CauseRequested, deployed, releasev1alpha1.UpgradeReasonUserRequested},
		{"requested, ignoring other circumstances", helm.CauseRequested, with(with(deployed, spec), because(resync|retry)), releasev1alpha1.UpgradeReasonUserRequested},

		{"drift", helm.CauseDrift, with(deployed, because(controller.Drift)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"drift, without an event", helm.CauseDrift, with(deployed, because(resync)), releasev1alpha1.UpgradeReasonPeriodicResync},
		{"drift, without an event, at the second attempt", helm.CauseDrift, with(deployed, because(resync|retry)), releasev1alpha1.UpgradeReasonPeriodicResync},
		{"drift at the second attempt", helm.CauseDrift, with(deployed, because(controller.Drift|retry)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"drift, event and periodic resync at once", helm.CauseDrift, with(deployed, because(resync|controller.Drift)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"drift found after a restart", helm.CauseDrift, with(deployed, because(controller.SpecChange)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"drift while a dependency becomes ready", helm.CauseDrift, with(deployed, ready), releasev1alpha1.UpgradeReasonDriftDetected},

		{"taken over", helm.CauseReleaseChanged, Circumstances{SpecChanged: true}, releasev1alpha1.UpgradeReasonTakenOver},
		{
			"taken over from another owner", helm.CauseInputsChanged, Circumstances{Failed: true, Foreign: true}, releasev1alpha1.UpgradeReasonTakenOver,
		},
		{
			"installed after another owner's release is gone", helm.CauseNotInstalled,
			Circumstances{Failed: true, Foreign: true},
			releasev1alpha1.UpgradeReasonRetryAfterFailure,
		},
		{"taken over after an event", helm.CauseReleaseChanged, with(Circumstances{}, because(controller.Drift)), releasev1alpha1.UpgradeReasonTakenOver},
		{"rolled back by hand", helm.CauseReleaseChanged, with(deployed, because(controller.Drift)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"rolled back by hand, without an event", helm.CauseReleaseChanged, with(deployed, because(resync)), releasev1alpha1.UpgradeReasonPeriodicResync},
		{"rolled back by hand and a new spec", helm.CauseReleaseChanged, with(deployed, spec), releasev1alpha1.UpgradeReasonDriftDetected},

		{"status lost a revision", helm.CauseBaselineUnknown, with(deployed, because(controller.SpecChange)), releasev1alpha1.UpgradeReasonDriftDetected},
		{"status lost a revision, without an event", helm.CauseBaselineUnknown, with(deployed, because(resync)), releasev1alpha1.UpgradeReasonPeriodicResync},
		{"status was never written", helm.CauseBaselineUnknown, Circumstances{SpecChanged: true}, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"status was never written, after a wait", helm.CauseBaselineUnknown, with(Circumstances{SpecChanged: true}, ready), releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "reason", test.want, ReasonFor(helm.Decision{Cause: test.cause}, test.c))
		})
	}
}
