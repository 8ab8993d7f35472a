// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/test/expect"
)

// TestChangedInputsPassHaltedRollout: an app that failed with the newer chart and has
// changed inputs does not wait for the rollout.
func TestChangedInputsPassHaltedRollout(t *testing.T) {
	changes := map[string]func(w *world){
		"spec": func(w *world) { w.change("a", says("good")) },
		"key":  func(w *world) { w.secret(map[string]string{"k": "second-key"}) },
		"key after a restart": func(w *world) {
			w.start(testChart(w.t, "1.1.0"))
			w.secret(map[string]string{"k": "second-key"})
		},
		"key while suspended": func(w *world) {
			w.secret(map[string]string{"k": "second-key"})
			w.change("a", suspended(true))
			w.passes("a", controller.SpecChange)
			w.change("a", suspended(false))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.secret(map[string]string{"k": "first-key"})
			for _, app := range []*v1alpha1.DemoApp{newApp("a", keyFrom("keys", "k")), newApp("b"), newApp("c")} {
				w.create(app)
				w.passes(app.Name, controller.SpecChange)
			}
			w.rolloutLimits = rollout.Limits{Active: 5, Failed: 1}
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
			expect.Equal(t, "chart", "1.1.0", w.app("a").Status.DeployedRelease.ChartVersion)
		})
	}
}

// TestValidatedChangePassesHaltedRollout: a change that was invalid before is not
// mistaken for a chart upgrade after a restart.
func TestValidatedChangePassesHaltedRollout(t *testing.T) {
	w := allowing(t, "docker.io/library")
	for _, name := range []string{"a", "b", "c"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Image = "quay.io/team/web" })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False ValidationFailed", w.conditions("a")["Ready"])

	w.registries, w.rolloutLimits = registries.List{}, rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("b", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.rolloutWaits("c", releasev1alpha1.ReasonRolloutHalted)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
}

// TestRemediatedAppsWaitForTurn: for an app whose own change was rolled back, only the
// chart changes.
func TestRemediatedAppsWaitForTurn(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newApp(name, func(app *v1alpha1.DemoApp) { app.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
		w.passes(name, controller.SpecChange)
		w.change(name, says("other"))
		w.engine.Failures = []error{errPlain}
		_, err := w.pass(name, controller.SpecChange)
		expect.Equal(t, name+" failed", true, err != nil)
		w.passes(name, controller.Retry)
		expect.Equal(t, "Ready", "False RolledBack", w.is(name, apimeta.ConditionReady))
	}
	w.rolloutLimits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.beginRollout("a")
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "UpgradeHeld", "True RolloutQueued", w.is("b", releasev1alpha1.ConditionUpgradeHeld))
	expect.Equal(t, "chart of b", "1.0.0", w.app("b").Status.DeployedRelease.ChartVersion)
}
