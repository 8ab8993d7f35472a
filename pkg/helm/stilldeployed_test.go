// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// threeMaps is a release with three ConfigMaps that have the same value. They are applied in
// the order of their names.
func threeMaps(t *testing.T, value string) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/a.yaml": configMap("a", value), "templates/b.yaml": configMap("b", value), "templates/c.yaml": configMap("c", value),
	})
}

// refuseB makes the API server refuse a value of ConfigMap b.
func (f *fixture) refuseB(value string) {
	f.With(func() {
		f.Validate = func(object *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(object.Object, "data", "key"); object.GetName() == "b" && got == value {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "b", nil)
			}
			return nil
		}
	})
}

// fail executes the decision, and expects that the API server refuses it. It keeps the baseline
// that the engine returns with the error.
func (f *fixture) fail(desired Release) {
	f.t.Helper()
	deployed, err := f.engine.Execute(f.t.Context(), desired, f.decide(desired), f.baseline)
	_ = wantError[*RefusedError](f.t, err)
	if deployed != nil {
		f.baseline.Inventory = deployed.Inventory
	}
	synctest.Wait()
}

// observe observes the release.
func (f *fixture) observe(desired Release) Snapshot {
	f.t.Helper()
	synctest.Wait()
	observed, err := f.engine.Observe(f.t.Context(), desired.Key(), f.baseline)
	if err != nil {
		f.t.Fatal(err)
	}
	return observed
}

// drifted returns the drift of the revision that is still deployed, and that revision.
func (f *fixture) drifted(desired Release) (revision int, drifts []string) {
	f.t.Helper()
	observed := f.observe(desired)
	for _, drift := range observed.Drifts {
		drifts = append(drifts, drift.String())
	}
	if observed.StillDeployed == nil {
		return 0, drifts
	}
	return observed.StillDeployed.Revision, drifts
}

// TestDriftAfterFailedUpgrade: the deployed revision stays the baseline while upgrades are
// refused. Changes of a failed upgrade are no drift, also after a restart.
func TestDriftAfterFailedUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(threeMaps(t, "1"), ActionInstall, CauseNotInstalled)
		bad, worse := threeMaps(t, "bad"), threeMaps(t, "worse")
		f.refuseB("bad")
		<-time.After(time.Second) // Fingerprints have full seconds.
		f.fail(bad)
		f.refuseB("worse")
		<-time.After(time.Second)
		f.fail(worse)
		wantRecords(t, f, "web.v1 deployed", "web.v2 failed", "web.v3 failed")
		for range 2 {
			if revision, drifts := f.drifted(worse); revision != 1 || len(drifts) > 0 {
				t.Errorf("drift %q of revision %d, want none of revision 1", drifts, revision)
			}
			f.restart()
		}
		f.drifted(worse)
		f.heard()
		f.Remove("ConfigMap", "default/c")
		f.Edit("ConfigMap", "default/b", "kubectl", change("mine", "data", "key"))
		if heard, want := f.heard(), []string{"object default/web"}; !slices.Equal(heard, want) {
			t.Errorf("heard of %q, want %q", heard, want)
		}
		revision, drifts := f.drifted(worse)
		if want := []string{"ConfigMap default/b Changed", "ConfigMap default/c Missing"}; revision != 1 || !slices.Equal(drifts, want) {
			t.Errorf("drift %q of revision %d, want %q of revision 1", drifts, revision, want)
		}

		f.TakeRequests()
		observed := f.observe(worse)
		deployed, err := f.engine.Execute(t.Context(), worse, Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: observed.Drifts}, f.baseline)
		if err != nil {
			t.Fatal(err)
		}
		f.baseline = deployed.Baseline()
		wantRequests(t, f, "get secrets default/sh.helm.release.v1.web.v1", "apply configmaps default/b", "apply configmaps default/c")
		for name, want := range map[string]string{"a": "worse", "b": "1", "c": "1"} {
			if got := f.Object("ConfigMap", "default/"+name).Object["data"].(map[string]any)["key"]; got != want {
				t.Errorf("ConfigMap %s has the value %v, want %s", name, got, want)
			}
		}
		if revision, drifts := f.drifted(worse); revision != 1 || len(drifts) > 0 {
			t.Errorf("after the repair: drift %q of revision %d", drifts, revision)
		}
		wantRecords(t, f, "web.v1 deployed", "web.v2 failed", "web.v3 failed")

		f.With(func() { f.Validate = nil })
		f.must(worse, ActionUpgrade, CauseFailed)
		f.must(worse, ActionNone, CauseNone)
		if got := f.Object("ConfigMap", "default/c").Object["data"].(map[string]any)["key"]; got != "worse" {
			t.Errorf("ConfigMap c has the value %v after the upgrade", got)
		}
	})
}

// TestRollbackAfterRepair: a repair of the deployed revision does not hide the changes of earlier
// failed attempts. A rollback restores it.
func TestRollbackAfterRepair(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(threeMaps(t, "1"), ActionInstall, CauseNotInstalled)
		bad := threeMaps(t, "bad")
		f.refuseB("bad")
		f.fail(bad)
		f.Remove("ConfigMap", "default/c")
		observed := f.observe(bad)
		deployed, err := f.engine.Execute(t.Context(), bad, Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: observed.Drifts}, f.baseline)
		if err != nil {
			t.Fatal(err)
		}
		f.baseline = deployed.Baseline()
		if _, err := f.engine.Execute(t.Context(), bad, Decision{Action: ActionRollback, Cause: CauseFailed, To: 1}, f.baseline); err != nil {
			t.Fatal(err)
		}
		if got := f.Object("ConfigMap", "default/a").Object["data"].(map[string]any)["key"]; got != "1" {
			t.Errorf("ConfigMap a has the value %v after the rollback, want 1", got)
		}
	})
}
