// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/registries"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
)

// TestMendOfWhatFailedWithTheChart: whoever mends an app that the newer chart failed
// for does not wait until others are mended.
func TestMendOfWhatFailedWithTheChart(t *testing.T) {
	mends := map[string]func(w *world){
		"spec": func(w *world) { w.change("a", says("something that works")) },
		"key":  func(w *world) { w.secret(map[string]string{"k": "second-key"}) },
		"key, and a restart": func(w *world) {
			w.start(testChart(w.t, "1.1.0"))
			w.secret(map[string]string{"k": "second-key"})
		},
		"key, while it is suspended": func(w *world) {
			w.secret(map[string]string{"k": "second-key"})
			w.change("a", suspended(true))
			w.passes("a", controller.SpecChange)
			w.change("a", suspended(false))
		},
	}
	for name, mend := range mends {
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
			w.engine.failures = []error{&helm.RenderError{Err: errPlain}, &helm.RenderError{Err: errPlain}}
			for _, name := range []string{"a", "b"} {
				_, err := w.pass(name, controller.SpecChange)
				equal(t, name+" failed", true, err != nil)
			}
			w.waits("c", releasev1alpha1.ReasonRolloutHalted)
			mend(w)
			w.passes("a", controller.SpecChange)
			equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			equal(t, "chart", "1.1.0", w.app("a").Status.DeployedRelease.ChartVersion)
		})
	}
}

// TestChangeThatAPersonHadToLetThrough: after a restart, too, it is known to be more
// than the newer chart.
func TestChangeThatAPersonHadToLetThrough(t *testing.T) {
	w := allowing(t, "docker.io/library")
	for _, name := range []string{"a", "b", "c"} {
		w.create(newApp(name))
		w.passes(name, controller.SpecChange)
	}
	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Image = "quay.io/team/web" })
	w.passes("a", controller.SpecChange)
	equal(t, "Ready", "False ValidationFailed", w.conditions("a")["Ready"])

	w.registries, w.rolloutLimits = registries.List{}, rollout.Limits{Active: 5, Failed: 1}
	w.start(testChart(t, "1.1.0"))
	w.engine.failures = []error{errPlain}
	_, err := w.pass("b", controller.SpecChange)
	equal(t, "failed", true, err != nil)
	w.waits("c", releasev1alpha1.ReasonRolloutHalted)
	w.passes("a", controller.SpecChange)
	equal(t, "Ready in the end", "True Healthy", w.conditions("a")["Ready"])
}

// TestGivenUpAppsWaitForTheirTurn: an app whose own change was given up before gets
// nothing but the newer chart by the next upgrade.
func TestGivenUpAppsWaitForTheirTurn(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b"} {
		w.create(newApp(name, func(app *v1alpha1.DemoApp) { app.Spec.Remediation = &releasev1alpha1.Remediation{Retries: new(int32)} }))
		w.passes(name, controller.SpecChange)
		w.change(name, says("other"))
		w.engine.failures = []error{errPlain}
		_, err := w.pass(name, controller.SpecChange)
		equal(t, name+" failed", true, err != nil)
		w.passes(name, controller.Retry)
		equal(t, "Ready", "False RolledBack", w.is(name, apimeta.ConditionReady))
	}
	w.rolloutLimits = rollout.Limits{Active: 1}
	w.start(testChart(t, "1.1.0"))
	w.begins("a")
	w.passes("b", controller.SpecChange)
	equal(t, "UpgradeHeld", "True RolloutQueued", w.is("b", releasev1alpha1.ConditionUpgradeHeld))
	equal(t, "chart of b", "1.0.0", w.app("b").Status.DeployedRelease.ChartVersion)
}
