// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// TestRepairThatWorksWhileAChangeIsHeld: a failure of a repair is over when a later
// one works, and not when the change that waits is rolled out.
func TestRepairThatWorksWhileAChangeIsHeld(t *testing.T) {
	drifts := func(w *world) { w.engine.meddle("a", edits("ConfigMap")) }
	tests := []struct {
		name    string
		failure error
		failed  []string
		mend    func(w *world)
	}{
		{
			"the retry of one that failed", errPlain,
			[]string{"Ready", "False RepairFailed", "Reconciling", "True RepairFailed", "Failed", "True RepairFailed"},
			func(*world) {},
		},
		{
			"one that was refused", terminalFailures()[apimeta.ReasonRefused],
			[]string{"Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused", "Deployed", "False Refused"},
			func(w *world) { w.change("a", asks("now", "")) },
		},
		{
			"somebody undoes the drift", terminalFailures()[apimeta.ReasonRefused],
			[]string{"Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused", "Deployed", "False Refused"},
			func(w *world) {
				w.engine.meddle("a", func(r *fakeRelease) { r.live["ConfigMap"] = r.applied["ConfigMap"] })
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, opensAt("0 5 * * *", "UTC"))
			w.change("a", says("other"))
			w.passes("a", controller.SpecChange)
			drifts(w)
			w.engine.failures = []error{test.failure}
			_, err := w.pass("a", controller.Drift)
			equal(t, "failed", true, err != nil)
			want := heldConditions(append([]string{"Drifted", "True ObjectsChanged"}, test.failed...)...)
			if want["Stalled"] != "" {
				delete(want, "Reconciling")
			}
			equal(t, "conditions after the failure", want, w.conditions("a"))
			test.mend(w)
			w.passes("a", controller.Drift|controller.Retry)
			equal(t, "conditions in the end", heldConditions(), w.conditions("a"))
			equal(t, "message of Deployed", "Revision 1 of chart demo-app 1.0.0 is deployed", w.message("a", releasev1alpha1.ConditionDeployed))
			is := meta.FindStatusCondition(w.app("a").Status.Conditions, releasev1alpha1.ConditionDeployed)
			equal(t, "generation that is deployed", int64(1), is.ObservedGeneration)
		})
	}
}

// TestRepairDoesNotMakeUpForAnUpgrade: what is said of an upgrade that failed stays
// until there is another, whatever becomes of drift meanwhile.
func TestRepairDoesNotMakeUpForAnUpgrade(t *testing.T) {
	refused := terminalFailures()[apimeta.ReasonRefused]
	// Nothing is repaired while the record of an attempt that failed is the newest.
	forgets := func(r *fakeRelease) { r.record = &r.past[0] }
	tests := []struct {
		reason  string
		failure error
		after   func(*fakeRelease)
	}{
		{releasev1alpha1.ReasonRenderFailed, terminalFailures()[releasev1alpha1.ReasonRenderFailed], func(*fakeRelease) {}},
		{releasev1alpha1.ReasonUpgradeFailed, errPlain, forgets},
		{apimeta.ReasonRefused, refused, forgets},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			w := deployed(t)
			w.change("a", says("bad"))
			w.engine.failures = []error{test.failure}
			_, err := w.pass("a", controller.SpecChange)
			equal(t, "failed", true, err != nil)
			w.engine.meddle("a", test.after)
			w.change("a", waitsFor("nobody"))
			w.passes("a", controller.SpecChange)
			w.engine.meddle("a", edits("ConfigMap"))
			for _, failure := range []error{errPlain, refused} {
				w.engine.failures = []error{failure}
				_, err = w.pass("a", controller.Drift)
				equal(t, "the repair failed", true, err != nil)
				equal(t, "Failed", "True "+test.reason, w.conditions("a")["Failed"])
				equal(t, "Deployed", "False "+test.reason, w.conditions("a")["Deployed"])
			}
			w.change("a", asks("now", ""))
			w.passes("a", controller.Drift|controller.Retry)
			equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
			equal(t, "Failed in the end", "True "+test.reason, w.conditions("a")["Failed"])
			equal(t, "Deployed in the end", "False "+test.reason, w.conditions("a")["Deployed"])
		})
	}
}
