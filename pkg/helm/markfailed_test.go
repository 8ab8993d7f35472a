// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unhealthy is a release that was deployed, and whose revision was marked as failed.
func unhealthy(t *testing.T, f *fixture, data string) Release {
	t.Helper()
	desired := made(t, map[string]string{"templates/a.yaml": configMap("a", data)})
	f.must(desired, ActionInstall, CauseNotInstalled)
	f.TakeRequests()
	if err := f.engine.MarkFailed(t.Context(), desired, f.baseline, 1, "Not healthy in time"); err != nil {
		t.Fatal(err)
	}
	return desired
}

func TestMarkFailed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := unhealthy(t, f, "1")

		if diff := cmp.Diff([]string{"update secrets default/sh.helm.release.v1.web.v1"}, f.TakeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		wantRecords(t, f, "web.v1 failed")
		if got := f.record(desired).Info.Description; got != "Not healthy in time" {
			t.Errorf("description is %q", got)
		}
		if heard := f.heard(); len(heard) > 0 {
			t.Errorf("the own write was told of as a change: %v", heard)
		}
		f.must(desired, ActionNone, CauseNone)
		f.Edit("ConfigMap", "default/a", "kubectl", change("other", "data", "key"))
		f.heard()
		f.must(desired, ActionRepair, CauseDrift)
		if err := f.engine.MarkFailed(t.Context(), desired, f.baseline, 1, "again"); err != nil {
			t.Fatal(err)
		}
		if got := f.record(desired).Info.Description; got != "Not healthy in time" {
			t.Errorf("it was marked twice: %q", got)
		}
	})
}

func TestMarkDeployed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := unhealthy(t, f, "1")

		if err := f.engine.MarkDeployed(t.Context(), desired, f.baseline, 1, "Healthy after all"); err != nil {
			t.Fatal(err)
		}

		wantRecords(t, f, "web.v1 deployed")
		f.must(desired, ActionNone, CauseNone)
		next := made(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
		f.must(next, ActionUpgrade, CauseInputsChanged)
		if _, err := f.engine.Execute(t.Context(), next, Decision{Action: ActionRollback, To: 1}, f.baseline); err != nil {
			t.Errorf("the revision is no target of a rollback: %v", err)
		}
	})
}

func TestUnhealthyRevisionStaysFailed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := unhealthy(t, f, "1")
		again := Decision{Action: ActionUpgrade, Cause: CauseFailed}

		deployed, err := f.engine.Execute(t.Context(), desired, again, f.baseline)
		if err != nil {
			t.Fatal(err)
		}
		f.baseline = deployed.Baseline()

		wantRecords(t, f, "web.v1 failed", "web.v2 deployed")
		f.must(desired, ActionNone, CauseNone)
		_, err = f.engine.Execute(t.Context(), desired, Decision{Action: ActionRollback, To: 1}, f.baseline)
		_ = wantError[*NoSuchRevisionError](t, err)
		observed, err := f.engine.Observe(t.Context(), desired.Key(), f.baseline)
		if err != nil || observed.LastGood != nil {
			t.Errorf("last good revision is %+v (%v), want none", observed.LastGood, err)
		}
		next := made(t, map[string]string{"templates/b.yaml": configMap("b", "2")})
		f.must(next, ActionUpgrade, CauseInputsChanged)
		wantRecords(t, f, "web.v1 failed", "web.v2 superseded", "web.v3 deployed")
		if diff := cmp.Diff([]string{"ConfigMap default/b"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

func TestUnhealthyRevisionSurvivesRestart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := unhealthy(t, f, "1")
		f.restart()

		f.must(desired, ActionNone, CauseNone)

		f.uninstall(desired)
		wantRecords(t, f)
		if names := f.Names(); len(names) > 0 {
			t.Errorf("left are %v", names)
		}
	})
}

func TestRollbackFromUnhealthyRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		kept := configMap("c", "kept")
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/c.yaml": kept}), ActionInstall, CauseNotInstalled)
		bad := made(t, map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/b.yaml": configMap("b", "2"), "templates/c.yaml": kept})
		f.must(bad, ActionUpgrade, CauseInputsChanged)
		if err := f.engine.MarkFailed(t.Context(), bad, f.baseline, 2, "Not healthy in time"); err != nil {
			t.Fatal(err)
		}

		f.TakeRequests()

		if err := f.rollback(bad, 1); err != nil {
			t.Fatal(err)
		}
		wantSteps(t, f, "rollback, without what both revisions have", "apply configmaps default/a", "delete configmaps default/b")
		wantRecords(t, f, "web.v1 superseded", "web.v2 failed", "web.v3 deployed")
		if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		if decision := f.decide(bad); decision.Action != ActionNone || !decision.RolledBack {
			t.Errorf("decided on %+v", decision)
		}
	})
}

// TestMarkOfAnotherRevision: a release that has changed in the meantime is not marked.
func TestMarkOfAnotherRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.TakeRequests()
		for _, revision := range []int{0, 2} {
			if err := f.engine.MarkFailed(t.Context(), desired, f.baseline, revision, "late"); err != nil {
				t.Error(err)
			}
		}
		if err := f.engine.MarkDeployed(t.Context(), desired, f.baseline, 1, "late"); err != nil {
			t.Error(err)
		}

		if requests := f.TakeRequests(); len(requests) > 0 {
			t.Errorf("requests: %v", requests)
		}
		wantRecords(t, f, "web.v1 deployed")
	})
}
