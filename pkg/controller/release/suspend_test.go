// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func suspended(is bool) func(*Shop) {
	return func(shop *Shop) { shop.Spec.Suspend = is }
}

func TestSuspended(t *testing.T) {
	const (
		isSuspended = "True SuspendedBySpec"
		waits       = "False SuspendedBySpec"
		installed   = "True InstallSucceeded"
	)
	tests := []struct {
		name   string
		change func(w *world)
		want   map[string]string
		// drifted is the message of Drifted, and ready the message of Ready.
		drifted, ready string
		// handled says that the generation is observed.
		handled bool
	}{
		{
			"nothing to do", func(*world) {},
			releasetest.Conditions("Suspended", isSuspended, "Ready", "True Healthy", "Deployed", installed),
			"", "Revision 1 is deployed and healthy", true,
		},
		{
			"changed spec", func(w *world) { w.change("a", says("other")) },
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"", "A change waits until spec.suspend is false", false,
		},
		{
			"a newer chart", func(w *world) { w.start(testChart(t, "1.1.0")) },
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"", "A change waits until spec.suspend is false", false,
		},
		{
			"drift", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap")) },
			releasetest.Conditions("Suspended", isSuspended, "Drifted", "True ObjectsChanged", "Ready", "True Healthy", "Deployed", installed),
			"ConfigMap a (changed)", "Revision 1 is deployed and healthy", true,
		},
		{
			"a deleted object", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Remove("Deployment")) },
			releasetest.Conditions("Suspended", isSuspended, "Drifted", "True ObjectsChanged", "Ready", "False Unhealthy", "Stalled", "True Unhealthy", "Deployed", installed),
			"Deployment a (missing)", "Missing while spec.suspend is true: Deployment a", true,
		},
		{
			"drift and a changed spec", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Edit("Service")); w.change("a", says("other")) },
			releasetest.Conditions("Suspended", isSuspended, "Drifted", "True ObjectsChanged", "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"Service a (changed)", "A change waits until spec.suspend is false", false,
		},
		{
			"rolled back by hand", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "deployed")) },
			releasetest.Conditions("Suspended", isSuspended, "Drifted", "True ReleaseChanged", "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"Revision 2 (deployed) of the release was not made by this operator", "A change waits until spec.suspend is false", false,
		},
		{
			"uninstalled by hand", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.Uninstall) },
			releasetest.Conditions("Suspended", isSuspended, "Drifted", "True ReleaseChanged", "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"Release a was uninstalled", "A change waits until spec.suspend is false", false,
		},
		{
			"another client is changing the release", func(w *world) { w.engine.Mutate(keyOf("a"), releasetest.RewriteRecord(2, "pending-upgrade")) },
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"", "A change waits until spec.suspend is false", false,
		},
		{
			"unrecorded release", func(w *world) {
				w.report("a", func(shop *Shop) {
					shop.Status = ShopStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
				})
			},
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", waits),
			"", "A change waits until spec.suspend is false", false,
		},
		{
			"held by another gate, too", func(w *world) {
				w.change("a", says("other"))
				w.change("a", waitsFor("b"))
			},
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"", `A change waits until spec.suspend is false; Waiting for Shop b`, false,
		},
		{
			"a value is missing", func(w *world) { w.change("a", fromSecret) },
			releasetest.Conditions("Suspended", isSuspended, "Ready", waits, "Reconciling", isSuspended, "Deployed", installed),
			"", `A change waits until spec.suspend is false; The Secret does not exist`, false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			w.change("a", suspended(true))
			test.change(w)
			for range 2 {
				w.passes("a", controller.SpecChange)
				expect.Equal(t, "engine calls", 0, releaseCalls(w.calls.Take()))
				expect.Equal(t, "conditions", test.want, w.conditions("a"))
				expect.Equal(t, "what drifted", test.drifted, w.message("a", releasev1alpha1.ConditionDrifted))
				expect.Equal(t, "message of Ready", test.ready, w.message("a", apimeta.ConditionReady))
				expect.Equal(t, "handled", test.handled, w.shop("a").Status.ObservedGeneration == w.shop("a").Generation)
				// A new process reports the same.
				w.start(w.chart)
			}
			w.passes("a", controller.PeriodicResync)
			expect.Equal(t, "requests of the next pass", []string(nil), w.calls.Take())
		})
	}
}

// releaseCalls counts the calls of Execute.
func releaseCalls(calls []string) int {
	count := 0
	for _, call := range calls {
		if call[0] >= 'A' && call[0] <= 'Z' {
			count++
		}
	}
	return count
}

func TestResume(t *testing.T) {
	w := deployed(t)
	w.change("a", suspended(true))
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.SpecChange)
	w.recorder.Take()
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "events", []string{"a Normal DriftCorrected Repair Corrected ConfigMap a (changed)"}, w.recorder.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))

	w.change("a", suspended(true))
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "events", []string{"a Normal Held Hold SuspendedBySpec: A change waits until spec.suspend is false"}, w.recorder.Take())
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a InputsChanged", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

func TestDriftThatEndsWhileSuspended(t *testing.T) {
	w := deployed(t)
	w.change("a", suspended(true))
	var before helm.InventoryEntry
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) { before = r.Live["ConfigMap"]; releasetest.Edit("ConfigMap")(r) })
	w.passes("a", controller.Drift)
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) { r.Live["ConfigMap"] = before })
	w.passes("a", controller.Drift)
	expect.Equal(t, "conditions", releasetest.Conditions("Suspended", "True SuspendedBySpec", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "events", []string(nil), w.recorder.Take())
}

func TestSuspendedBeforeInstall(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a", suspended(true)))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch shops a", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Suspended", "True SuspendedBySpec", "Deployed", "False SuspendedBySpec",
		"Ready", "False SuspendedBySpec", "Reconciling", "True SuspendedBySpec"), w.conditions("a"))
	expect.Equal(t, "observedGeneration", int64(-1), w.shop("a").Status.ObservedGeneration)
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Install a NotInstalled", "apply shops/status a"}, w.calls.Take())
}

func TestSuspendAfterFailure(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.change("a", suspended(true))
	w.clock.Step(time.Minute)
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "conditions", releasetest.Conditions("Suspended", "True SuspendedBySpec", "Failed", "True UpgradeFailed",
		"Deployed", "False UpgradeFailed", "Ready", "False SuspendedBySpec", "Reconciling", "True SuspendedBySpec"), w.conditions("a"))
	w.change("a", suspended(false))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a Failed", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

func TestDeletionWhileSuspended(t *testing.T) {
	w := deployed(t)
	w.change("a", suspended(true))
	w.passes("a", controller.SpecChange)
	w.delete("a")
	w.passes("a", controller.SpecChange)
	if shop := w.shop("a"); shop != nil {
		t.Errorf("the Shop still exists: %+v", shop.ObjectMeta)
	}
	if release := w.engine.Release(keyOf("a")); release != nil {
		t.Errorf("the release still exists: %+v", release.Record)
	}
}

func TestDriftPolicyWhileSuspended(t *testing.T) {
	w := deployed(t, func(shop *Shop) {
		shop.Spec.Drift = &releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftOff}
	})
	w.change("a", suspended(true))
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "conditions", releasetest.Conditions("Suspended", "True SuspendedBySpec", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Drifted", "", w.conditions("a")["Drifted"])
	expect.Equal(t, "Ready", "False SuspendedBySpec", w.conditions("a")["Ready"])
}
