// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// TestChangedInputsPassHaltedRollout: a Shop that failed with the newer chart and has
// changed inputs does not wait for the rollout.
func TestChangedInputsPassHaltedRollout(t *testing.T) {
	changes := map[string]func(w *world){
		"spec":   func(w *world) { w.change("a", says("good")) },
		"Secret": func(w *world) { w.setSecret("second-key") },
		"Secret after a restart": func(w *world) {
			w.start(testChart(w.t, "1.1.0"))
			w.setSecret("second-key")
		},
		"Secret while suspended": func(w *world) {
			w.setSecret("second-key")
			w.change("a", suspended(true))
			w.passes("a", controller.SpecChange)
			w.change("a", suspended(false))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("first-key")
			for _, shop := range []*Shop{newShop("a", fromSecret), newShop("b"), newShop("c")} {
				w.create(shop)
				w.passes(shop.Name, controller.SpecChange)
			}
			w.limits = rollout.Limits{Active: 5, Failed: 1}
			w.start(testChart(t, "1.1.0"))
			w.change("b", asks("now", "now"))
			w.engine.Failures = []error{&helm.RenderError{Err: errPlain}, &helm.RenderError{Err: errPlain}}
			for _, name := range []string{"a", "b"} {
				_, err := w.pass(name, controller.SpecChange)
				expect.Equal(t, name+" failed", true, err != nil)
			}
			w.rolloutWaits("c", releasev1alpha1.ReasonRolloutHalted)
			change(w)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "chart", "1.1.0", w.shop("a").Status.DeployedRelease.ChartVersion)
		})
	}
}

// TestRemediatedShopsWaitForTurn: for a Shop whose own change was rolled back, only the
// chart changes.
func TestRemediatedShopsWaitForTurn(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newShop(name, func(shop *Shop) { shop.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
		w.passes(name, controller.SpecChange)
		w.change(name, says("other"))
		w.engine.Failures = []error{errPlain}
		_, err := w.pass(name, controller.SpecChange)
		expect.Equal(t, name+" failed", true, err != nil)
		w.passes(name, controller.Retry)
		expect.Equal(t, "Ready", "False RolledBack", w.conditions(name)[apimeta.ConditionReady])
	}
	w.limits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "UpgradeHeld", "True RolloutQueued", w.conditions("b")[releasev1alpha1.ConditionUpgradeHeld])
	expect.Equal(t, "chart of b", "1.0.0", w.shop("b").Status.DeployedRelease.ChartVersion)
}
