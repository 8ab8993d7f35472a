// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// TestTakeoverWaitsForConsent: a takeover that needs consent is no failure. It waits, also after a change
// of the spec and in another process, until force-at consents or nothing needs consent any more.
func TestTakeoverWaitsForConsent(t *testing.T) {
	const message = "The release waits for consent, because the takeover would delete Service ns/a, and change the pods of " +
		"Deployment ns/a (/spec/template/spec/serviceAccountName); to consent, run: kubectl demoapp retry shop/a --namespace=ns"
	reference := func(kind string) helm.ObjectReference {
		return helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: "a"}
	}
	needed := &helm.ConsentError{
		Deleted: []helm.ObjectReference{reference("Service")},
		Changed: []helm.PodChange{{Object: reference("Deployment"), Fields: []string{"/spec/template/spec/serviceAccountName"}}},
	}
	held := releasetest.Conditions("UpgradeHeld", "True TakeoverHeld", "Ready", "False TakeoverHeld", "Reconciling", "True TakeoverHeld",
		"Deployed", "False TakeoverHeld")
	tests := map[string]struct {
		end      func(w *world)
		consents bool
	}{
		"consent":              {func(w *world) { w.change("a", asks("now", "now")) }, true},
		"nothing needs it now": {func(*world) {}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(3, "deployed"))
			w.create(newShop("a"))
			for _, again := range []func(){func() {}, func() { w.change("a", says("other")) }, func() { w.start(testChart(t, "1.0.0")) }} {
				again()
				w.engine.Failures = []error{needed}
				w.passes("a", controller.SpecChange)
				expect.Equal(t, "operations", []string{"Upgrade a ReleaseChanged"}, w.rollouts())
				expect.Equal(t, "conditions", held, w.conditions("a"))
				expect.Equal(t, "message", message, w.message("a", "Ready"))
				if w.engine.Desired.Consents {
					t.Error("nobody consented")
				}
			}
			expect.Equal(t, "events", []string{
				"a Warning ReleaseChanged Reconcile Revision 3 (deployed) of the release was not made by this operator",
				"a Warning Held Hold TakeoverHeld: " + message, "a Warning Held Hold TakeoverHeld: " + message, // For two generations.
			}, w.recorder.Take())
			if failures := w.shop("a").Status.Failures; failures != nil && failures.Consecutive > 0 {
				t.Errorf("the hold counts as %d failures", failures.Consecutive)
			}

			test.end(w)
			w.passes("a", controller.SpecChange)

			expect.Equal(t, "consent", test.consents, w.engine.Desired.Consents)
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
			expect.Equal(t, "reason", releasev1alpha1.UpgradeReasonTakenOver, w.shop("a").Status.LastUpgradeReason)
			if test.consents {
				expect.Equal(t, "answer", "now", w.shop("a").Status.LastHandledForceAt)
			}
		})
	}
}
