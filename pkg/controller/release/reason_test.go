// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
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
		want  UpgradeReason
	}{
		{"first install", helm.CauseNotInstalled, Circumstances{SpecChanged: true}, SpecGenerationChanged},
		{"first install after a wait", helm.CauseNotInstalled, with(Circumstances{SpecChanged: true}, ready), CrossCRDependencyBecameReady},
		{"first install after a refusal that left nothing", helm.CauseNotInstalled, with(Circumstances{}, failed), RetryAfterFailure},
		{"first install on the periodic look", helm.CauseNotInstalled, with(Circumstances{SpecChanged: true}, because(resync)), SpecGenerationChanged},
		{"uninstalled by hand", helm.CauseNotInstalled, deployed, DriftDetected},
		{"uninstalled by hand, no event", helm.CauseNotInstalled, with(deployed, because(resync)), PeriodicResync},
		{"uninstalled by hand and a new spec", helm.CauseNotInstalled, with(deployed, spec), SpecGenerationChanged},

		{"new spec", helm.CauseInputsChanged, with(deployed, spec), SpecGenerationChanged},
		{"new key in a Secret", helm.CauseInputsChanged, deployed, SpecGenerationChanged},
		{"new spec that had to wait", helm.CauseInputsChanged, with(with(deployed, spec), ready), CrossCRDependencyBecameReady},
		{"new spec that was refused", helm.CauseInputsChanged, with(with(deployed, spec), failed), RetryAfterFailure},
		{"new chart", helm.CauseInputsChanged, with(deployed, newChart), ChartChanged},
		{"new chart and spec", helm.CauseInputsChanged, with(with(deployed, newChart), spec), SpecGenerationChanged},
		{"new chart that was refused", helm.CauseInputsChanged, with(with(deployed, newChart), failed), RetryAfterFailure},
		{"new chart that had to wait", helm.CauseInputsChanged, with(with(deployed, newChart), ready), CrossCRDependencyBecameReady},
		{"support that came or went", helm.CauseInputsChanged, with(deployed, supported), ClusterCapabilitiesChanged},
		{"support that came, and a new spec", helm.CauseInputsChanged, with(with(deployed, supported), spec), SpecGenerationChanged},
		{"support that came, after a failure", helm.CauseInputsChanged, with(with(deployed, supported), failed), ClusterCapabilitiesChanged},
		{"support that came while it waited", helm.CauseInputsChanged, with(with(deployed, supported), ready), CrossCRDependencyBecameReady},
		{"new inputs found on the periodic look", helm.CauseInputsChanged, with(deployed, because(resync)), SpecGenerationChanged},

		{"attempt failed", helm.CauseFailed, with(deployed, failed), RetryAfterFailure},
		{"attempt failed, the rest does not matter", helm.CauseFailed, with(with(with(deployed, ready), newChart), because(resync)), RetryAfterFailure},
		{"attempt was cut off", helm.CauseInterrupted, with(deployed, spec), RetryAfterFailure},
		{"first attempt was cut off", helm.CauseInterrupted, Circumstances{SpecChanged: true}, RetryAfterFailure},

		{"asked for", helm.CauseRequested, deployed, UserRequested},
		{"asked for, the rest does not matter", helm.CauseRequested, with(with(deployed, spec), because(resync|retry)), UserRequested},

		{"drift", helm.CauseDrift, with(deployed, because(controller.Drift)), DriftDetected},
		{"drift, no event", helm.CauseDrift, with(deployed, because(resync)), PeriodicResync},
		{"drift, no event, at the second attempt", helm.CauseDrift, with(deployed, because(resync|retry)), PeriodicResync},
		{"drift at the second attempt", helm.CauseDrift, with(deployed, because(controller.Drift|retry)), DriftDetected},
		{"drift, event and periodic look at once", helm.CauseDrift, with(deployed, because(resync|controller.Drift)), DriftDetected},
		{"drift found after a restart", helm.CauseDrift, with(deployed, because(controller.SpecChange)), DriftDetected},
		{"drift while a dependency becomes ready", helm.CauseDrift, with(deployed, ready), DriftDetected},

		{"rolled back by hand", helm.CauseReleaseChanged, with(deployed, because(controller.Drift)), DriftDetected},
		{"rolled back by hand, no event", helm.CauseReleaseChanged, with(deployed, because(resync)), PeriodicResync},
		{"rolled back by hand and a new spec", helm.CauseReleaseChanged, with(deployed, spec), DriftDetected},

		{"status lost a revision", helm.CauseBaselineUnknown, with(deployed, because(controller.SpecChange)), DriftDetected},
		{"status lost a revision, no event", helm.CauseBaselineUnknown, with(deployed, because(resync)), PeriodicResync},
		{"status was never written", helm.CauseBaselineUnknown, Circumstances{SpecChanged: true}, SpecGenerationChanged},
		{"status was never written, after a wait", helm.CauseBaselineUnknown, with(Circumstances{SpecChanged: true}, ready), CrossCRDependencyBecameReady},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "reason", test.want, ReasonFor(helm.Decision{Cause: test.cause}, test.c))
		})
	}
}
