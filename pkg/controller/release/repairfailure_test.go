// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// TestRepairFailureEndsWhileChangeIsHeld: a repair failure ends with the next successful
// repair, not with the held upgrade.
func TestRepairFailureEndsWhileChangeIsHeld(t *testing.T) {
	drifts := func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap")) }
	tests := []struct {
		name    string
		failure error
		failed  []string
		next    func(w *world)
	}{
		{
			"retry of a failed repair", errPlain,
			[]string{"Ready", "False RepairFailed", "Reconciling", "True RepairFailed", "Failed", "True RepairFailed"},
			func(*world) {},
		},
		{
			"refused repair", terminalFailures()[apimeta.ReasonRefused],
			[]string{"Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused", "Deployed", "False Refused"},
			func(w *world) { w.change("a", asks("now", "")) },
		},
		{
			"drift undone by another client", terminalFailures()[apimeta.ReasonRefused],
			[]string{"Ready", "False Refused", "Stalled", "True Refused", "Failed", "True Refused", "Deployed", "False Refused"},
			func(w *world) {
				w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) { r.Live["ConfigMap"] = r.Applied["ConfigMap"] })
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t, opensAt("0 5 * * *", "UTC"))
			w.change("a", says("other"))
			w.passes("a", controller.SpecChange)
			drifts(w)
			w.engine.Failures = []error{test.failure}
			_, err := w.pass("a", controller.Drift)
			expect.Equal(t, "failed", true, err != nil)
			want := heldConditions(append([]string{"Drifted", "True ObjectsChanged"}, test.failed...)...)
			if want["Stalled"] != "" {
				delete(want, "Reconciling")
			}
			expect.Equal(t, "conditions after the failure", want, w.conditions("a"))
			test.next(w)
			w.passes("a", controller.Drift|controller.Retry)
			expect.Equal(t, "conditions in the end", heldConditions(), w.conditions("a"))
			expect.Equal(t, "message of Deployed", "Revision 1 of chart shop 1.0.0 is deployed", w.message("a", releasev1alpha1.ConditionDeployed))
			is := meta.FindStatusCondition(w.shop("a").Status.Conditions, releasev1alpha1.ConditionDeployed)
			expect.Equal(t, "observed generation of Deployed", int64(1), is.ObservedGeneration)
		})
	}
}

// TestRepairKeepsFailedUpgrade: a reported upgrade failure stays until the next upgrade,
// whatever repairs do.
func TestRepairKeepsFailedUpgrade(t *testing.T) {
	refused := terminalFailures()[apimeta.ReasonRefused]
	// Drift is not corrected while the newest record belongs to a failed attempt.
	forgets := func(r *releasetest.Release) { r.Record = &r.Past[0] }
	tests := []struct {
		reason  string
		failure error
		after   func(*releasetest.Release)
	}{
		{releasev1alpha1.ReasonRenderFailed, terminalFailures()[releasev1alpha1.ReasonRenderFailed], func(*releasetest.Release) {}},
		{releasev1alpha1.ReasonUpgradeFailed, errPlain, forgets},
		{apimeta.ReasonRefused, refused, forgets},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			w := deployed(t)
			w.change("a", says("bad"))
			w.engine.Failures = []error{test.failure}
			_, err := w.pass("a", controller.SpecChange)
			expect.Equal(t, "failed", true, err != nil)
			w.engine.Mutate(keyOf("a"), test.after)
			w.change("a", waitsFor("missing"))
			w.passes("a", controller.SpecChange)
			w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
			for _, failure := range []error{errPlain, refused} {
				w.engine.Failures = []error{failure}
				_, err = w.pass("a", controller.Drift)
				expect.Equal(t, "the repair failed", true, err != nil)
				expect.Equal(t, "Failed", "True "+test.reason, w.conditions("a")["Failed"])
				expect.Equal(t, "Deployed", "False "+test.reason, w.conditions("a")["Deployed"])
			}
			w.change("a", asks("now", ""))
			w.passes("a", controller.Drift|controller.Retry)
			expect.Equal(t, "Ready", "False Waiting", w.conditions("a")["Ready"])
			expect.Equal(t, "Failed in the end", "True "+test.reason, w.conditions("a")["Failed"])
			expect.Equal(t, "Deployed in the end", "False "+test.reason, w.conditions("a")["Deployed"])
		})
	}
}
