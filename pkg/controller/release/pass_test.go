// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestFirstPass(t *testing.T) {
	w := newWorld(t)
	created := w.create(newShop("a"))
	w.engine.Executing = func() {
		if shop := w.shop("a"); len(shop.Finalizers) != 1 || shop.Finalizers[0] != "shop.example.com/finalizer" || shop.Status.ObservedGeneration != -1 {
			t.Errorf("when Execute begins, finalizers are %v and observedGeneration is %d", shop.Finalizers, shop.Status.ObservedGeneration)
		}
	}
	result := w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch shops a", "Install a NotInstalled", "apply shops/status a"}, w.calls.Take())
	if result.RequeueAfter < resync*9/10 || result.RequeueAfter > resync*11/10 {
		t.Errorf("requeued after %v", result.RequeueAfter)
	}
	expect.Equal(t, "events", []string{
		"a Normal Installed Install Installed revision 1 of chart shop 1.0.0 (SpecGenerationChanged)",
	}, w.recorder.Take())

	desired := w.engine.Desired
	isController := true
	expect.Equal(t, "values", map[string]any{"size": int64(1), "message": "hello"}, desired.Values)
	expect.Equal(t, "owner", &metav1.OwnerReference{
		APIVersion: "shop.example.com/v1", Kind: "Shop", Name: "a", UID: created.UID, Controller: &isController,
	}, desired.Owner)

	inputs, err := desired.InputDigest()
	expect.NoError(t, err)
	at := metav1.NewTime(began)
	want := ShopStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{
		ObservedGeneration:  1,
		DeployedRelease:     &releasev1alpha1.DeployedRelease{Name: "a", Revision: 1, Chart: "shop", ChartVersion: "1.0.0", AppVersion: "1.27"},
		LastUpgradeReason:   releasev1alpha1.UpgradeReasonSpecGenerationChanged,
		LastUpgradeAt:       &at,
		AppliedManifestHash: "hash-" + inputs,
		Revisions:           []releasev1alpha1.RevisionDigest{{Revision: 1, Digest: "digest"}},
		Replicas:            1, ReadyReplicas: 1, Selector: "app=a",
		LastGoodRevision: 1,
		History: []releasev1alpha1.HistoryEntry{{
			Time: at, Action: releasev1alpha1.HistoryInstall, Outcome: releasev1alpha1.HistorySucceeded,
			Reason: releasev1alpha1.UpgradeReasonSpecGenerationChanged, Revision: 1, ChartVersion: "1.0.0", Generation: 1,
		}},
	}}
	for i, kind := range w.engine.Kinds {
		want.Inventory = append(want.Inventory, releasev1alpha1.InventoryEntry{
			APIVersion: "v1", Kind: kind, Namespace: namespace, Name: "a", UID: w.shop("a").Status.Inventory[i].UID, Digest: "applied-" + inputs,
		})
	}
	got := w.shop("a").Status
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(want.ReleaseStatus, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "message of Initialized", "Bound to chart shop 1.0.0", w.message("a", releasev1alpha1.ConditionInitialized))
	expect.Equal(t, "message of Deployed", "Revision 1 of chart shop 1.0.0 is deployed", w.message("a", releasev1alpha1.ConditionDeployed))
	expect.Equal(t, "message of Ready", "Revision 1 is deployed and healthy", w.message("a", apimeta.ConditionReady))
}

func TestAdoption(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.engine.Add(keyOf("a")).Record = &record.Record{Revision: 4, Status: "deployed", Changed: began}
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "revision", int64(5), w.shop("a").Status.DeployedRelease.Revision)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
}

// TestInventoryOfEarlierVersionIsCompleted: an earlier version of the operator recorded digests
// without a time.
func TestInventoryOfEarlierVersionIsCompleted(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
		for kind, live := range r.Live {
			live.Digest += "@5"
			r.Live[kind] = live
		}
	})
	w.start(testChart(t, "1.0.0"))

	w.passes("a", controller.SpecChange)

	expect.Equal(t, "requests", []string{"apply shops/status a"}, w.calls.Take())
	for _, entry := range w.shop("a").Status.Inventory {
		expect.Equal(t, "digest of "+entry.Kind, w.engine.Release(keyOf("a")).Live[entry.Kind].Digest, entry.Digest)
	}
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())
}

func TestUnchangedShopSendsNoRequest(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		why    controller.Reason
	}{
		{"another event without a change", func(*world) {}, controller.SpecChange},
		{"event of an object without drift", func(*world) {}, controller.Drift},
		{"the periodic resync", func(*world) {}, controller.PeriodicResync},
		{"a dependency", func(*world) {}, controller.DependencyReady},
		{"a new process", func(w *world) { w.start(testChart(t, "1.0.0")) }, controller.SpecChange},
		{"metadata of the Shop", func(w *world) {
			w.change("a", func(shop *Shop) { shop.Labels = map[string]string{"x": "y"} })
		}, controller.SpecChange},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			test.change(w)
			w.clock.Step(time.Hour)
			result := w.passes("a", test.why)
			expect.Equal(t, "requests", []string(nil), w.calls.Take())
			expect.Equal(t, "events", []string(nil), w.recorder.Take())
			if result.RequeueAfter < resync*9/10 || result.RequeueAfter > resync*11/10 {
				t.Errorf("requeued after %v", result.RequeueAfter)
			}
		})
	}
}

func TestStaleCache(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.passes("a", controller.SpecChange)
	before := w.shop("a")
	_, err := w.latePass("a", controller.Drift)
	expect.NoError(t, err)
	expect.Equal(t, "requests", []string(nil), w.calls.Take())
	expect.Equal(t, "Shop", before, w.shop("a"))
}

func TestChangesUpgrade(t *testing.T) {
	upgrade := []string{"Upgrade a InputsChanged", "apply shops/status a"}
	// A new process confirms the Shop first.
	restarted := append([]string{"patch shops a"}, upgrade...)
	tests := []struct {
		name    string
		change  func(w *world)
		upgrade []string
		reason  releasev1alpha1.UpgradeReason
	}{
		{"message", func(w *world) { w.change("a", says("other")) }, upgrade, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"chart", func(w *world) { w.start(testChart(t, "1.1.0")) }, restarted, releasev1alpha1.UpgradeReasonChartChanged},
		{"chart and spec", func(w *world) {
			w.start(testChart(t, "1.1.0"))
			w.change("a", says("other"))
		}, restarted, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
		{"no value", func(w *world) {
			w.change("a", func(shop *Shop) { shop.Spec.Comment = "other" })
		}, nil, releasev1alpha1.UpgradeReasonSpecGenerationChanged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deployed(t)
			before := w.shop("a").Status
			test.change(w)
			w.passes("a", controller.SpecChange)
			calls := []string{"apply shops/status a"}
			var events []string
			after := w.shop("a").Status
			revision, at := int64(1), *before.LastUpgradeAt
			reason := "True InstallSucceeded"
			if test.upgrade != nil {
				calls = test.upgrade
				events = []string{"a Normal Upgraded Upgrade Upgraded to revision 2 of chart shop " +
					after.DeployedRelease.ChartVersion + " (" + string(test.reason) + ")"}
				revision, at, reason = 2, metav1.NewTime(w.clock.Now()), "True UpgradeSucceeded"
			}
			expect.Equal(t, "requests", calls, w.calls.Take())
			expect.Equal(t, "events", events, w.recorder.Take())
			expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", reason), w.conditions("a"))
			expect.Equal(t, "revision", revision, after.DeployedRelease.Revision)
			expect.Equal(t, "lastUpgradeReason", test.reason, after.LastUpgradeReason)
			expect.Equal(t, "lastUpgradeAt", at, *after.LastUpgradeAt)
			expect.Equal(t, "observedGeneration", w.shop("a").Generation, after.ObservedGeneration)
		})
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.engine.Add(keyOf("a"))
	steps := []struct {
		name   string
		change func(*releasetest.Release)
		want   map[string]string
		ready  int32
		events []string
	}{
		{
			"pods start", func(*releasetest.Release) {},
			releasetest.Conditions("Ready", "False Progressing", "Reconciling", "True Progressing", "Deployed", "True InstallSucceeded"), 0,
			[]string{"a Normal Installed Install Installed revision 1 of chart shop 1.0.0 (SpecGenerationChanged)"},
		},
		{
			"pods are ready", releasetest.SetHealth(status.CurrentStatus, "", 1),
			releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), 1, nil,
		},
		{
			"past the progress deadline", releasetest.SetHealth(status.FailedStatus, "Progress deadline exceeded", 0),
			releasetest.Conditions("Ready", "False Unhealthy", "Stalled", "True Unhealthy", "Deployed", "True InstallSucceeded"), 0,
			[]string{"a Warning Unhealthy Reconcile Deployment a: Progress deadline exceeded"},
		},
		{
			"still past the deadline", releasetest.SetHealth(status.FailedStatus, "Progress deadline exceeded", 0),
			releasetest.Conditions("Ready", "False Unhealthy", "Stalled", "True Unhealthy", "Deployed", "True InstallSucceeded"), 0, nil,
		},
		{
			"ready again", releasetest.SetHealth(status.CurrentStatus, "", 1),
			releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), 1, nil,
		},
	}
	w.sync()
	_, err := w.loop.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
	expect.NoError(t, err)
	expect.Equal(t, "conditions while the status is delayed", map[string]string{}, w.conditions("a"))
	w.clock.Step(release.NewRevisionTime)
	for _, step := range steps {
		w.engine.Mutate(keyOf("a"), step.change)
		w.passes("a", controller.HealthChange)
		expect.Equal(t, step.name+": conditions", step.want, w.conditions("a"))
		expect.Equal(t, step.name+": ready pods", step.ready, w.shop("a").Status.ReadyReplicas)
		expect.Equal(t, step.name+": events", step.events, w.recorder.Take())
	}
}

func TestDelayedStatus(t *testing.T) {
	w := deployed(t)
	written := func(step string, want ...string) {
		t.Helper()
		expect.Equal(t, step, want, w.calls.Take())
	}
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/2", 0))
	w.passes("a", controller.HealthChange)
	written("pods start")
	w.clock.Step(release.SettleTime / 2)
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 1/2", 1))
	w.passes("a", controller.HealthChange)
	written("pods still start")
	expect.Equal(t, "ready pods meanwhile", int32(1), w.shop("a").Status.ReadyReplicas)
	w.clock.Step(release.SettleTime / 2)
	w.passes("a", controller.HealthChange)
	written("after the delay", "apply shops/status a")
	expect.Equal(t, "message", "Deployment a: Available: 1/2", w.message("a", apimeta.ConditionReady))

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/2", 0))
	w.passes("a", controller.HealthChange)
	written("not ready again")
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	written("healthy is not delayed", "apply shops/status a")
	expect.Equal(t, "events", []string(nil), w.recorder.Take())

	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/2", 0))
	w.passes("a", controller.HealthChange)
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	written("healthy again before the write")
}

// TestDriftDuringDelayedStatus: the status that reports drift is complete, even if the
// previous status was delayed.
func TestDriftDuringDelayedStatus(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.engine.Add(keyOf("a"))
	w.engine.Executing = func() {
		w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	}
	w.sync()
	_, err := w.loop.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
	expect.NoError(t, err)
	expect.Equal(t, "conditions while the status is delayed", map[string]string{}, w.conditions("a"))
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Secret"))
	var announced map[string]string
	w.engine.Executing, w.wrote = nil, func() { w.wrote, announced = nil, w.conditions("a") }
	w.passes("a", controller.Drift)
	expect.Equal(t, "conditions of the report",
		releasetest.Conditions("Drifted", "True ObjectsChanged", "Deployed", "True InstallSucceeded", "Ready", "False Progressing", "Reconciling", "True Progressing"), announced)
}

func TestDelayedStatusOfRepair(t *testing.T) {
	w := deployed(t)
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0))
	w.passes("a", controller.Drift)
	expect.Equal(t, "requests", []string{"Repair a Drift", "apply shops/status a"}, w.calls.Take())
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "requests of the next pass", []string(nil), w.calls.Take())
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1))
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "requests after it became healthy", []string{"apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonDriftDetected, w.shop("a").Status.LastUpgradeReason)
}

func TestStatusWriteFailure(t *testing.T) {
	w := newWorld(t)
	w.create(newShop("a"))
	w.statusErr = errPlain
	w.sync()
	_, err := w.loop.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
	if !errors.Is(err, errPlain) || controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "events", []string(nil), w.recorder.Take())
	w.statusErr = nil
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "requests of the retry", []string{"Reapply a BaselineUnknown", "apply shops/status a"}, w.calls.Take())
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.shop("a").Status.LastUpgradeReason)
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}

func TestDeletedShop(t *testing.T) {
	t.Run("before the pass", func(t *testing.T) {
		w := newWorld(t)
		w.passes("a", controller.Deleted)
		expect.Equal(t, "requests", []string(nil), w.calls.Take())
		expect.Equal(t, "releases passed to Forget", []cache.ObjectName(nil), w.engine.Forgotten)
	})
	t.Run("before the status is written", func(t *testing.T) {
		w := deployed(t)
		w.change("a", says("other"))
		w.sync()
		w.statusErr = apierrors.NewNotFound(shops.GroupResource(), "a")
		_, err := w.loop.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
		expect.NoError(t, err)
		expect.Equal(t, "events", []string(nil), w.recorder.Take())
	})
	t.Run("before the finalizer is added", func(t *testing.T) {
		w := newWorld(t)
		w.create(newShop("a"))
		w.sync()
		w.delete("a")
		if _, err := w.latePass("a", controller.SpecChange); !apierrors.IsNotFound(err) {
			t.Errorf("error is %v", err)
		}
		expect.Equal(t, "requests", []string{"patch shops a"}, w.calls.Take())
	})
}
