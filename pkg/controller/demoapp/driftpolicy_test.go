// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// policy sets spec.drift.
func policy(p releasev1alpha1.DriftPolicy) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Drift = &p }
}

// driftStep is something that happens, and what the next pass makes of it.
type driftStep struct {
	name string
	// meddle is what others do to the release, spec how the policy changes.
	meddle []func(*fakeRelease)
	spec   *releasev1alpha1.DriftPolicy

	requests []string
	// drifted is reason and message of the condition, repaired what was repaired.
	drifted  string
	repaired []string
	events   []string
}

func TestDriftPolicy(t *testing.T) {
	const warn, remove = releasev1alpha1.DriftWarn, releasev1alpha1.ForeignFieldsRemove
	var (
		written    = []string{"apply demoapps/status a"}
		looked     = []string{"explain a"}
		told       = slices.Concat(looked, written)
		mended     = slices.Concat(written, []string{"Repair a Drift"}, written)
		lookedAt   = slices.Concat(looked, mended)
		ignored    = []releasev1alpha1.DriftIgnore{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}}
		meddle     = func(change ...func(*fakeRelease)) []func(*fakeRelease) { return change }
		scales     = changes("Deployment", "/spec/replicas")
		setsImage  = changes("Deployment", "/spec/image")
		backImage  = putsBack("Deployment", "/spec/image")
		defaces    = changes("ConfigMap", "/data/page")
		restores   = putsBack("ConfigMap", "/data/page")
		defaced    = "ObjectsChanged ConfigMap a (changed): /data/page"
		otherImage = "ObjectsChanged Deployment a (changed): /spec/image"
		detected   = func(message string) []string { return []string{"a Warning DriftDetected Reconcile " + message} }
		corrected  = func(message string) []string { return []string{"a Normal DriftCorrected Repair Corrected " + message} }
		defaceStep = driftStep{
			name: "defaced", meddle: meddle(defaces), requests: told, drifted: defaced,
			events: detected("ConfigMap a (changed): /data/page"),
		}
	)
	tests := []struct {
		name   string
		policy releasev1alpha1.DriftPolicy
		steps  []driftStep
	}{
		{"corrected", releasev1alpha1.DriftPolicy{}, []driftStep{{
			name: "defaced", meddle: meddle(defaces), requests: mended,
			repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
		}}},
		{"reported, put back, and reported again", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			defaceStep,
			{name: "put back", meddle: meddle(restores), requests: told},
			defaceStep,
			{
				name: "more of it", meddle: meddle(removes("Service")), requests: told,
				drifted: defaced + "; Service a (missing)",
				events:  detected("ConfigMap a (changed): /data/page; Service a (missing)"),
			},
		}},
		{"left alone", releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, []driftStep{
			{name: "defaced", meddle: meddle(defaces, removes("Service"))},
		}},
		{"reported, and then nobody's business", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			defaceStep,
			{name: "off", spec: &releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, requests: written},
		}},
		{"reported, and then ignored", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			defaceStep,
			{
				name: "ignored", requests: told,
				spec: &releasev1alpha1.DriftPolicy{Mode: warn, Ignore: []releasev1alpha1.DriftIgnore{{Kind: "ConfigMap", Paths: []string{"/data/page"}}}},
			},
		}},
		{"reported, and then corrected", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			defaceStep,
			{
				name: "corrected", spec: &releasev1alpha1.DriftPolicy{}, requests: mended,
				repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
			},
		}},
		{"ignored", releasev1alpha1.DriftPolicy{Ignore: ignored}, []driftStep{
			{name: "scaled", meddle: meddle(scales), requests: told},
			{name: "scaled again", meddle: meddle(scales)},
			{
				name: "another image", meddle: meddle(setsImage), requests: lookedAt,
				repaired: []string{"Deployment Changed"}, events: corrected("Deployment a (changed)"),
			},
			{name: "scaled after the repair", meddle: meddle(scales), requests: told},
			{
				name: "an object without ignored fields", meddle: meddle(defaces), requests: mended,
				repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
			},
			{name: "scaled after that repair", meddle: meddle(scales)},
		}},
		{"ignored, and a field that is not was put back", releasev1alpha1.DriftPolicy{Ignore: ignored}, []driftStep{{
			name: "scaled, another image and back", meddle: meddle(scales, setsImage, backImage), requests: lookedAt,
			repaired: []string{"Deployment Changed"}, events: corrected("Deployment a (changed)"),
		}}},
		{"reported, and a field was put back beside an ignored one", releasev1alpha1.DriftPolicy{Mode: warn, Ignore: ignored}, []driftStep{
			{name: "scaled, another image and back", meddle: meddle(scales, setsImage, backImage), requests: looked},
			{
				name: "another image again", meddle: meddle(setsImage), requests: told, drifted: otherImage,
				events: detected("Deployment a (changed): /spec/image"),
			},
		}},
		{"additions removed", releasev1alpha1.DriftPolicy{ForeignFields: remove}, []driftStep{{
			name: "added", meddle: meddle(adds("ConfigMap", ".data.more")), requests: mended,
			repaired: []string{"ConfigMap Foreign"}, events: corrected("ConfigMap a (foreign)"),
		}}},
		{"additions kept", releasev1alpha1.DriftPolicy{}, []driftStep{{name: "added", meddle: meddle(adds("ConfigMap", ".data.more"))}}},
		{"additions reported", releasev1alpha1.DriftPolicy{Mode: warn, ForeignFields: remove}, []driftStep{
			{
				name: "added", meddle: meddle(adds("ConfigMap", ".data.more")), requests: told,
				drifted: "ForeignFields ConfigMap a (foreign): .data.more", events: detected("ConfigMap a (foreign): .data.more"),
			},
			{name: "taken away", meddle: meddle(takesAway("ConfigMap")), requests: written},
		}},
		{"reported, put back, and others own it alone", releasev1alpha1.DriftPolicy{Mode: warn, ForeignFields: remove}, []driftStep{
			{
				name: "defaced", meddle: meddle(defaces), requests: told, drifted: defaced,
				events: detected("ConfigMap a (changed): /data/page"),
			},
			{name: "put back", meddle: meddle(restores), requests: told},
		}},
		{"ignored, and others own it alone", releasev1alpha1.DriftPolicy{Ignore: ignored, ForeignFields: remove}, []driftStep{
			{name: "scaled", meddle: meddle(scales), requests: told},
			{
				name: "scaled and added", meddle: meddle(scales, adds("Deployment", ".metadata.labels.more")), requests: lookedAt,
				repaired: []string{"Deployment Foreign"}, events: corrected("Deployment a (foreign)"),
			},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, policy(test.policy))
			for _, step := range test.steps {
				w.followsDriftPolicy(step)
			}
		})
	}
}

// followsDriftPolicy lets something happen, and holds what the next pass makes of it, and
// that the one after it does nothing.
func (w *world) followsDriftPolicy(step driftStep) {
	w.t.Helper()
	if step.spec != nil {
		w.change("a", policy(*step.spec))
	}
	for _, change := range step.meddle {
		w.engine.meddle("a", change)
	}
	w.engine.repaired = nil
	w.passes("a", controller.Drift)
	calls := w.calls.take()
	equal(w.t, step.name+": requests", step.requests, calls)
	if slices.Contains(calls, "explain a") {
		reports := w.app("a").Spec.Drift != nil && w.app("a").Spec.Drift.Mode == releasev1alpha1.DriftWarn
		equal(w.t, step.name+": what is found counts as reported", reports, w.engine.reports)
	}
	drifted := ""
	if is := meta.FindStatusCondition(w.app("a").Status.Conditions, releasev1alpha1.ConditionDrifted); is != nil {
		drifted = is.Reason + " " + is.Message
	}
	equal(w.t, step.name+": Drifted", step.drifted, drifted)
	var repaired []string
	for _, drift := range w.engine.repaired {
		repaired = append(repaired, drift.Object.Kind+" "+string(drift.Kind))
	}
	equal(w.t, step.name+": repaired", step.repaired, repaired)
	equal(w.t, step.name+": events", step.events, w.recorder.take())
	w.passes("a", controller.Drift)
	equal(w.t, step.name+": requests of the next pass", []string(nil), w.calls.take())
}
