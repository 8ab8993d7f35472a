// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

const heldMessage = "The release waits for consent, because with chart shop 1.0.0 the takeover would delete Service ns/a, and change the pods of " +
	"Deployment ns/a (/spec/template/spec/serviceAccountName); to consent, run: kubectl demoapp retry shop/a --namespace=ns"

// needed has the changes of a takeover of the Shop "a", and the deleted objects.
func needed(deleted ...string) *helm.ConsentError {
	reference := func(kind string) helm.ObjectReference {
		return helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: "a"}
	}
	err := &helm.ConsentError{Changed: []helm.PodChange{{Object: reference("Deployment"), Fields: []string{"/spec/template/spec/serviceAccountName"}}}}
	for _, kind := range deleted {
		err.Deleted = append(err.Deleted, reference(kind))
	}
	return err
}

// heldTakeover returns a world in which the takeover of the release of "a" waits for consent.
func heldTakeover(t *testing.T, change ...func(*Shop)) *world {
	t.Helper()
	w := newWorld(t)
	w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(3, "deployed"))
	w.create(newShop("a", change...))
	w.engine.Failures = []error{needed("Service")}
	w.passes("a", controller.SpecChange)
	return w
}

// request lets a user ask for an upgrade, and makes the pass in which the takeover would still need err.
func (w *world) request(at string, err error) {
	w.t.Helper()
	w.change("a", asks(at, at))
	w.engine.Failures = []error{err}
	w.passes("a", controller.SpecChange)
}

var takeoverHeld = releasetest.Conditions("UpgradeHeld", "True TakeoverHeld", "Ready", "False TakeoverHeld", "Reconciling", "True TakeoverHeld",
	"Deployed", "False TakeoverHeld")

// TestTakeoverWaitsForConsent: a takeover that needs consent is no failure. It waits, also after a change
// of the spec and in another process, until force-at consents or nothing needs consent any more.
func TestTakeoverWaitsForConsent(t *testing.T) {
	tests := map[string]struct {
		end      func(w *world)
		consents bool
	}{
		"consent":              {func(w *world) { w.change("a", asks("now", "now")); w.engine.Failures = []error{needed("Service")} }, true},
		"nothing needs it now": {func(w *world) { w.clock.Step(2 * release.RefusedRetry) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := heldTakeover(t)
			for _, again := range []func(){func() { w.change("a", says("other")) }, func() { w.start(testChart(t, "1.0.0")) }} {
				again()
				w.engine.Failures = []error{needed("Service")}
				w.passes("a", controller.SpecChange)
				expect.Equal(t, "operations", []string{"Upgrade a ReleaseChanged"}, w.rollouts())
				expect.Equal(t, "conditions", takeoverHeld, w.conditions("a"))
				expect.Equal(t, "message", heldMessage, w.message("a", "Ready"))
			}
			expect.Equal(t, "events", []string{
				"a Warning ReleaseChanged Reconcile Revision 3 (deployed) of the release was not made by this operator",
				"a Warning Held Hold TakeoverHeld: " + heldMessage, "a Warning Held Hold TakeoverHeld: " + heldMessage, // For two generations.
			}, w.recorder.Take())
			if failures := w.shop("a").Status.Failures; failures != nil && failures.Consecutive > 0 {
				t.Errorf("the hold counts as %d failures", failures.Consecutive)
			}

			test.end(w)
			w.passes("a", controller.SpecChange)

			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
			expect.Equal(t, "reason", releasev1alpha1.UpgradeReasonTakenOver, w.shop("a").Status.LastUpgradeReason)
			if test.consents {
				expect.Equal(t, "answer", "now", w.shop("a").Status.LastHandledForceAt)
			}
		})
	}
}

// TestConsentCountsForWhatTheStatusShows: a request from before the hold, or for another difference, is no
// consent. The next request is.
func TestConsentCountsForWhatTheStatusShows(t *testing.T) {
	tests := map[string]func(t *testing.T) *world{
		"requested before": func(t *testing.T) *world { return heldTakeover(t, asks("before", "before")) },
		"requested before, in another process": func(t *testing.T) *world {
			w := heldTakeover(t, asks("before", "before"))
			w.start(testChart(t, "1.0.0"))
			return w
		},
		"requested for other objects": func(t *testing.T) *world {
			w := heldTakeover(t)
			w.request("earlier", needed("Service", "Secret"))
			w.request("before", needed("Service"))
			return w
		},
		"requested for another spec": func(t *testing.T) *world {
			w := heldTakeover(t)
			w.change("a", says("other"))
			w.request("before", needed("Service"))
			return w
		},
		"requested for another chart": func(t *testing.T) *world {
			w := heldTakeover(t)
			w.start(testChart(t, "2.0.0"))
			w.request("before", needed("Service"))
			return w
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			w := prepare(t)
			w.engine.Failures = []error{needed("Service")}
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "conditions", takeoverHeld, w.conditions("a"))
			expect.Equal(t, "answer", w.shop("a").Annotations[releasev1alpha1.AnnotationForceAt], w.shop("a").Status.LastHandledForceAt)

			w.request("now", needed("Service"))
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
		})
	}
}

// TestHeldTakeoverRests: while nothing changes, passes do not repeat the dry runs of a takeover that waits
// for consent.
func TestHeldTakeoverRests(t *testing.T) {
	again := []string{"Upgrade a ReleaseChanged"}
	tests := map[string]struct {
		change func(w *world)
		why    controller.Reason
		want   []string
	}{
		"nothing":               {func(*world) {}, controller.PeriodicResync, nil},
		"health":                {func(*world) {}, controller.HealthChange, nil},
		"a request for a pass":  {func(w *world) { w.change("a", asks("now", "")) }, controller.SpecChange, again},
		"the spec":              {func(w *world) { w.change("a", says("other")) }, controller.SpecChange, again},
		"values of a new start": {func(w *world) { w.defaults = "other" }, controller.PeriodicResync, again},
		"a record":              {func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(4, "deployed")) }, controller.PeriodicResync, again},
		"an object":             {func(*world) {}, controller.Drift, again},
		"a long time":           {func(w *world) { w.clock.Step(2 * release.RefusedRetry) }, controller.PeriodicResync, again},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := heldTakeover(t)
			w.rollouts()
			test.change(w)
			w.engine.Failures = []error{needed("Service")}

			result := w.passes("a", test.why)

			expect.Equal(t, "operations", test.want, w.rollouts())
			expect.Equal(t, "conditions", takeoverHeld, w.conditions("a"))
			if result.RequeueAfter <= 0 || result.RequeueAfter > 2*release.RefusedRetry {
				t.Errorf("the next pass is after %s", result.RequeueAfter)
			}
		})
	}
}

// TestHeldTakeoverBesideOtherHolds: UpgradeHeld has one reason, and Ready the same one. It is the reason of the
// takeover as long as the same takeover waits.
func TestHeldTakeoverBesideOtherHolds(t *testing.T) {
	closed := &releasev1alpha1.UpgradeWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}} // It is past three.
	outside := releasetest.Conditions("UpgradeHeld", "True OutsideWindow", "Ready", "False OutsideWindow", "Reconciling", "True OutsideWindow",
		"Deployed", "False OutsideWindow")
	w := newWorld(t)
	w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(3, "deployed"))
	w.create(newShop("a", func(shop *Shop) { shop.Spec.UpgradeWindow = closed }))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "before the takeover was looked at", outside, w.conditions("a"))

	w.request("window", needed("Service"))
	expect.Equal(t, "after a request to ignore the window", takeoverHeld, w.conditions("a"))
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "in the next pass", takeoverHeld, w.conditions("a"))
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "after a change of the spec", outside, w.conditions("a"))
	w.request("again", needed("Service"))
	expect.Equal(t, "after another request", takeoverHeld, w.conditions("a"))

	w.request("consent", needed("Service"))
	expect.Equal(t, "after consent", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}
