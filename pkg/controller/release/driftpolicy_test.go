// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// policy sets spec.drift.
func policy(p releasev1alpha1.DriftPolicy) func(*Shop) {
	return func(shop *Shop) { shop.Spec.Drift = &p }
}

// driftStep is a change, and the expected result of the next pass.
type driftStep struct {
	name string
	// mutate lists the changes of other clients, and spec changes the policy.
	mutate []func(*releasetest.Release)
	spec   *releasev1alpha1.DriftPolicy

	requests []string
	// drifted is the reason and message of the condition. repaired lists the repaired
	// objects.
	drifted  string
	repaired []string
	events   []string
}

func TestDriftPolicy(t *testing.T) {
	const warn, remove = releasev1alpha1.DriftWarn, releasev1alpha1.ForeignFieldsRemove
	var (
		statusWrite      = []string{"apply shops/status a"}
		explainOnly      = []string{"explain a"}
		explainAndReport = slices.Concat(explainOnly, statusWrite)
		repairOnly       = slices.Concat([]string{"Repair a Drift"}, statusWrite, statusWrite)
		explainAndRepair = slices.Concat(explainOnly, repairOnly)
		ignored          = []releasev1alpha1.DriftIgnore{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}}
		mutate           = func(change ...func(*releasetest.Release)) []func(*releasetest.Release) { return change }
		scales           = releasetest.ChangeField("Deployment", "/spec/replicas")
		setsImage        = releasetest.ChangeField("Deployment", "/spec/image")
		restoresImage    = releasetest.RestoreField("Deployment", "/spec/image")
		changesPage      = releasetest.ChangeField("ConfigMap", "/data/page")
		restoresPage     = releasetest.RestoreField("ConfigMap", "/data/page")
		pageChanged      = "ObjectsChanged ConfigMap a (changed): /data/page"
		otherImage       = "ObjectsChanged Deployment a (changed): /spec/image"
		detected         = func(message string) []string { return []string{"a Warning DriftDetected Reconcile " + message} }
		corrected        = func(message string) []string { return []string{"a Normal DriftCorrected Repair Corrected " + message} }
		pageChangedStep  = driftStep{
			name: "page changed", mutate: mutate(changesPage), requests: explainAndReport, drifted: pageChanged,
			events: detected("ConfigMap a (changed): /data/page"),
		}
	)
	tests := []struct {
		name   string
		policy releasev1alpha1.DriftPolicy
		steps  []driftStep
	}{
		{"corrected", releasev1alpha1.DriftPolicy{}, []driftStep{{
			name: "page changed", mutate: mutate(changesPage), requests: repairOnly,
			repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
		}}},
		{"reported, restored, and reported again", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			pageChangedStep,
			{name: "page restored", mutate: mutate(restoresPage), requests: explainAndReport},
			pageChangedStep,
			{
				name: "more drift", mutate: mutate(releasetest.Remove("Service")), requests: explainAndReport,
				drifted: pageChanged + "; Service a (missing)",
				events:  detected("ConfigMap a (changed): /data/page; Service a (missing)"),
			},
		}},
		{"off", releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, []driftStep{
			{name: "page changed", mutate: mutate(changesPage, releasetest.Remove("Service"))},
		}},
		{"reported, then off", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			pageChangedStep,
			{name: "off", spec: &releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}, requests: statusWrite},
		}},
		{"reported, then ignored", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			pageChangedStep,
			{
				name: "ignored", requests: explainAndReport,
				spec: &releasev1alpha1.DriftPolicy{Mode: warn, Ignore: []releasev1alpha1.DriftIgnore{{Kind: "ConfigMap", Paths: []string{"/data/page"}}}},
			},
		}},
		{"reported, then corrected", releasev1alpha1.DriftPolicy{Mode: warn}, []driftStep{
			pageChangedStep,
			{
				name: "corrected", spec: &releasev1alpha1.DriftPolicy{}, requests: repairOnly,
				repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
			},
		}},
		{"ignored", releasev1alpha1.DriftPolicy{Ignore: ignored}, []driftStep{
			{name: "scaled", mutate: mutate(scales), requests: explainAndReport},
			{name: "scaled again", mutate: mutate(scales)},
			{
				name: "another image", mutate: mutate(setsImage), requests: explainAndRepair,
				repaired: []string{"Deployment Changed"}, events: corrected("Deployment a (changed)"),
			},
			{name: "scaled after the repair", mutate: mutate(scales), requests: explainAndReport},
			{
				name: "an object without ignored fields", mutate: mutate(changesPage), requests: repairOnly,
				repaired: []string{"ConfigMap Changed"}, events: corrected("ConfigMap a (changed)"),
			},
			{name: "scaled after that repair", mutate: mutate(scales)},
		}},
		{"ignored field changed, another field restored", releasev1alpha1.DriftPolicy{Ignore: ignored}, []driftStep{{
			name: "scaled, another image and back", mutate: mutate(scales, setsImage, restoresImage), requests: explainAndRepair,
			repaired: []string{"Deployment Changed"}, events: corrected("Deployment a (changed)"),
		}}},
		{"reported, ignored field changed, another field restored", releasev1alpha1.DriftPolicy{Mode: warn, Ignore: ignored}, []driftStep{
			{name: "scaled, another image and back", mutate: mutate(scales, setsImage, restoresImage), requests: explainOnly},
			{
				name: "another image again", mutate: mutate(setsImage), requests: explainAndReport, drifted: otherImage,
				events: detected("Deployment a (changed): /spec/image"),
			},
		}},
		{"additions removed", releasev1alpha1.DriftPolicy{ForeignFields: remove}, []driftStep{{
			name: "added", mutate: mutate(releasetest.AddField("ConfigMap", ".data.more")), requests: repairOnly,
			repaired: []string{"ConfigMap Foreign"}, events: corrected("ConfigMap a (foreign)"),
		}}},
		{"additions kept", releasev1alpha1.DriftPolicy{}, []driftStep{{name: "added", mutate: mutate(releasetest.AddField("ConfigMap", ".data.more"))}}},
		{"additions reported", releasev1alpha1.DriftPolicy{Mode: warn, ForeignFields: remove}, []driftStep{
			{
				name: "added", mutate: mutate(releasetest.AddField("ConfigMap", ".data.more")), requests: explainAndReport,
				drifted: "ForeignFields ConfigMap a (foreign): .data.more", events: detected("ConfigMap a (foreign): .data.more"),
			},
			{name: "additions removed", mutate: mutate(releasetest.RemoveAddedFields("ConfigMap")), requests: statusWrite},
		}},
		{"reported, restored, owned by another client", releasev1alpha1.DriftPolicy{Mode: warn, ForeignFields: remove}, []driftStep{
			{
				name: "page changed", mutate: mutate(changesPage), requests: explainAndReport, drifted: pageChanged,
				events: detected("ConfigMap a (changed): /data/page"),
			},
			{name: "page restored", mutate: mutate(restoresPage), requests: explainAndReport},
		}},
		{"ignored, owned by another client", releasev1alpha1.DriftPolicy{Ignore: ignored, ForeignFields: remove}, []driftStep{
			{name: "scaled", mutate: mutate(scales), requests: explainAndReport},
			{
				name: "scaled and added", mutate: mutate(scales, releasetest.AddField("Deployment", ".metadata.labels.more")), requests: explainAndRepair,
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

// followsDriftPolicy applies the change and checks the next pass. It also checks that the
// pass after that does nothing.
func (w *world) followsDriftPolicy(step driftStep) {
	w.t.Helper()
	if step.spec != nil {
		w.change("a", policy(*step.spec))
	}
	for _, change := range step.mutate {
		w.engine.Mutate(keyOf("a"), change)
	}
	w.engine.Repaired = nil
	w.passes("a", controller.Drift)
	calls := w.calls.Take()
	expect.Equal(w.t, step.name+": requests", step.requests, calls)
	if slices.Contains(calls, "explain a") {
		reports := w.shop("a").Spec.Drift != nil && w.shop("a").Spec.Drift.Mode == releasev1alpha1.DriftWarn
		expect.Equal(w.t, step.name+": LeaveDrift", reports, w.engine.LeaveDrift)
	}
	drifted := ""
	if is := meta.FindStatusCondition(w.shop("a").Status.Conditions, releasev1alpha1.ConditionDrifted); is != nil {
		drifted = is.Reason + " " + is.Message
	}
	expect.Equal(w.t, step.name+": Drifted", step.drifted, drifted)
	var repaired []string
	for _, drift := range w.engine.Repaired {
		repaired = append(repaired, drift.Object.Kind+" "+string(drift.Kind))
	}
	expect.Equal(w.t, step.name+": repaired", step.repaired, repaired)
	expect.Equal(w.t, step.name+": events", step.events, w.recorder.Take())
	w.passes("a", controller.Drift)
	expect.Equal(w.t, step.name+": requests of the next pass", []string(nil), w.calls.Take())
}

// TestDriftWithoutCorrection: a repair that finds all objects as desired is not reported.
func TestDriftWithoutCorrection(t *testing.T) {
	w := deployed(t, policy(releasev1alpha1.DriftPolicy{}))
	w.engine.Uncorrected = true
	before := w.shop("a").Status
	w.engine.Mutate(keyOf("a"), releasetest.ChangeField("ConfigMap", "/data/page"))

	w.passes("a", controller.Drift)

	after := w.shop("a").Status
	expect.Equal(t, "repaired", 1, len(w.engine.Repaired))
	expect.Equal(t, "events", []string(nil), w.recorder.Take())
	expect.Equal(t, "history", before.History, after.History)
	expect.Equal(t, "reason of the last upgrade", before.LastUpgradeReason, after.LastUpgradeReason)
	if drifted := meta.FindStatusCondition(after.Conditions, releasev1alpha1.ConditionDrifted); drifted != nil {
		t.Errorf("the condition Drifted is %v", drifted)
	}
}
