// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/fakeapi"
)

// first and refusedSecond are two desired releases, one after the other.
func first(t *testing.T) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/c.yaml": configMap("c", "1"),
	})
}

func refusedSecond(t *testing.T) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/a.yaml": configMap("a", "2"), "templates/b.yaml": configMap("b", "1"), "templates/d.yaml": configMap("d", "bad"),
	})
}

func (f *fixture) rollback(desired Release, to int) error {
	f.t.Helper()
	deployed, err := f.engine.Execute(f.t.Context(), desired, Decision{Action: ActionRollback, To: to}, f.baseline)
	if err == nil {
		f.baseline = deployed.Baseline()
	}
	return err
}

// TestRollback: after an upgrade that failed, the state before it comes back,
// and stays until something else is desired.
func TestRollback(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		f.must(first(t), ActionInstall, CauseNotInstalled)
		desired := refusedSecond(t)
		_, err := f.reconcile(desired)
		_ = wantError[*RefusedError](t, err)
		observed := f.observe(desired)
		if observed.LastGood == nil || observed.LastGood.Revision != 1 || !observed.Record.Failed {
			t.Fatalf("last good revision is %+v, newest is %+v", observed.LastGood, observed.Record)
		}
		f.TakeRequests()
		if err := f.rollback(desired, 1); err != nil {
			t.Fatal(err)
		}
		const record = "update secrets default/sh.helm.release.v1.web.v"
		// Only a was changed. d never existed, which only a read shows.
		wantRequests(t, f, "create secrets default", "apply configmaps default/a", "get configmaps default/d", record+"1", record+"3")
		wantRecords(t, f, "web.v1 superseded", "web.v2 failed", "web.v3 deployed")
		if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/b", "ConfigMap default/c"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		for name, object := range mustInstall(t, first(t)) {
			kind, key, _ := strings.Cut(name, " ")
			if diff := cmp.Diff(meant(object), meant(f.Object(kind, key))); diff != "" {
				t.Errorf("%s (-as installed +got):\n%s", name, diff)
			}
		}

		for range 2 {
			f.TakeRequests()
			if got, want := f.decide(desired), (Decision{Action: ActionNone, RolledBack: true}); !cmp.Equal(got, want) {
				t.Errorf("decided on %+v", got)
			}
			wantRequests(t, f)
			f.restart()
		}
		rolledBack := f.observe(desired).Record
		if rolledBack.RolledBackTo != 1 || !rolledBack.MadeFrom(first(t).Chart) || rolledBack.MadeFrom(desired.Chart) {
			t.Errorf("the record is %+v", rolledBack)
		}
		f.Remove("ConfigMap", "default/b")
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)
		f.must(first(t), ActionNone, CauseNone)
		f.must(demo(t, nil), ActionUpgrade, CauseInputsChanged)
		wantRecords(t, f, "web.v1 superseded", "web.v2 failed", "web.v3 superseded", "web.v4 deployed")
		if got := f.decide(demo(t, nil)); got.RolledBack || got.Action != ActionNone {
			t.Errorf("decided on %+v after the upgrade", got)
		}
	})
}

// TestRollbackOfDeployed: a deployed revision may be rolled back, too.
func TestRollbackOfDeployed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
		desired := demo(t, map[string]any{"replicaCount": 7})
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		f.TakeRequests()
		if err := f.rollback(desired, f.observe(desired).LastGood.Revision); err != nil {
			t.Fatal(err)
		}
		const record = "update secrets default/sh.helm.release.v1.web.v"
		wantRequests(t, f, "create secrets default", "apply deployments default/web", record+"2", record+"3")
		wantRecords(t, f, "web.v1 superseded", "web.v2 superseded", "web.v3 deployed")
		f.must(desired, ActionNone, CauseNone)
		// The revision that was rolled back from is no good one any more.
		f.must(demo(t, map[string]any{"replicaCount": 8}), ActionUpgrade, CauseInputsChanged)
		if got := f.observe(desired).LastGood; got.Revision != 3 {
			t.Errorf("last good revision is %d, want 3", got.Revision)
		}
	})
}

// TestRollbackOwner: the objects get the current owner, and no other controller stays.
func TestRollbackOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		old, now := demoOwner(), demoOwner()
		now.UID = "u2"
		before := first(t)
		before.Owner = &old
		f.must(before, ActionInstall, CauseNotInstalled)
		desired := refusedSecond(t)
		desired.Owner = &now
		_, err := f.reconcile(desired)
		_ = wantError[*RefusedError](t, err)
		if err := f.rollback(desired, 1); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"default/a", "default/b", "default/c"} {
			if diff := cmp.Diff([]metav1.OwnerReference{now}, f.Object("ConfigMap", name).GetOwnerReferences()); diff != "" {
				t.Errorf("owners of %s (-want +got):\n%s", name, diff)
			}
		}
		manifest := f.record(desired).Manifest
		if strings.Contains(manifest, string(old.UID)) || !strings.Contains(manifest, "---\n# Source: test/templates/a.yaml\n") {
			t.Errorf("the manifest is\n%s", manifest)
		}
		if got := f.decide(desired); got.Action != ActionNone || !got.RolledBack {
			t.Errorf("decided on %+v", got)
		}
	})
}

func TestRollbackToNoGoodRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		if err := f.rollback(first(t), 1); !errors.As(err, new(*NoSuchRevisionError)) {
			t.Errorf("without a release: %v", err)
		}
		f.must(first(t), ActionInstall, CauseNotInstalled)
		_, err := f.reconcile(refusedSecond(t))
		_ = wantError[*RefusedError](t, err)
		f.must(demo(t, nil), ActionUpgrade, CauseInputsChanged)
		f.TakeRequests()
		for _, revision := range []int{-1, 0, 2, 3, 4} {
			missing := wantError[*NoSuchRevisionError](t, f.rollback(demo(t, nil), revision))
			if missing.Revision != revision || missing.Release != "default/web" {
				t.Errorf("the error is about %+v", missing)
			}
		}
		wantRequests(t, f)
	})
}

// TestRollbackFails: a rollback that is refused is not left pending, is redone or upgraded in
// its place, and ends with other inputs.
func TestRollbackFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		good := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
		f.must(good, ActionInstall, CauseNotInstalled)
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/d.yaml": configMap("d", "2")})
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		f.With(func() {
			f.Refuse = func(_ fakeapi.Request, object *unstructured.Unstructured) error {
				if value, _, _ := unstructured.NestedString(object.Object, "data", "key"); value == "1" {
					return refuseBad(fakeapi.Request{}, &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": "bad"}}})
				}
				return nil
			}
		})
		_ = wantError[*RefusedError](t, f.rollback(desired, 1))
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed", "web.v3 failed")
		for range 2 {
			decision, err := f.reconcile(desired)
			_ = wantError[*RefusedError](t, err)
			if decision.Action != ActionRollback || decision.Replace != 3 || decision.To != 1 {
				t.Errorf("decided on %+v", decision)
			}
		}
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed", "web.v3 failed")
		deployed, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionUpgrade, Cause: CauseFailed, Replace: 3}, f.baseline)
		if err != nil {
			t.Fatalf("the upgrade in place of the rollback: %v", err)
		}
		f.baseline = deployed.Baseline()
		wantRecords(t, f, "web.v1 superseded", "web.v2 superseded", "web.v3 deployed")
		f.With(func() { f.Refuse = nil })
		last := made(t, map[string]string{"templates/e.yaml": configMap("e", "1")})
		f.must(last, ActionUpgrade, CauseInputsChanged)
		if diff := cmp.Diff([]string{"ConfigMap default/e"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestRollbackHookFails: Helm itself would leave such a rollback pending.
func TestRollbackHookFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		failing := true
		f.With(func() {
			f.React = func(object *unstructured.Unstructured) bool {
				if object.GetKind() != "Job" || !failing {
					return jobsEnd(object)
				}
				conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
				_ = unstructured.SetNestedSlice(object.Object, []any{map[string]any{"type": "Failed", "status": "True"}}, "status", "conditions")
				return len(conditions) == 0
			}
		})
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/h.yaml": hook("h", "pre-rollback", 0)}), ActionInstall, CauseNotInstalled)
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		if err := f.rollback(desired, 1); err == nil || IsTerminal(err) {
			t.Fatalf("the rollback's error is %v", err)
		}
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed", "web.v3 failed")
		f.With(func() { failing = false })
		f.must(desired, ActionRollback, CauseFailed)
		wantRecords(t, f, "web.v1 superseded", "web.v2 superseded", "web.v3 deployed")
	})
}

// TestRollbackOfPending: another client's operation has precedence, and an interrupted attempt of
// the engine counts as failed.
func TestRollbackOfPending(t *testing.T) {
	for own, wantRecordsAfter := range map[bool][]string{
		false: {"web.v1 deployed", "web.v2 pending-upgrade"},
		true:  {"web.v1 superseded", "web.v2 failed", "web.v3 deployed"},
	} {
		t.Run(fmt.Sprintf("own %t", own), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.must(first(t), ActionInstall, CauseNotInstalled)
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
				if own {
					f.FailFrom(3, fakeapi.FailBefore)
					_, _ = f.reconcile(desired)
					f.With(func() { f.Fault = nil })
					f.restart()
				} else {
					f.foreign(desired, 2, common.StatusPendingUpgrade, nil)
					synctest.Wait()
				}
				err := f.rollback(desired, 1)
				if busy := errors.As(err, new(*BusyError)); busy == own {
					t.Errorf("the error is %v", err)
				}
				wantRecords(t, f, wantRecordsAfter...)
			})
		})
	}
}

// TestRollbackFullHistory: the history limit does not remove the target of the rollback.
func TestRollbackFullHistory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.stop()
		config := f.config()
		config.MaxHistory = 2
		f.start(config)
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
		desired := demo(t, map[string]any{"replicaCount": 7})
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		f.FailFrom(3, fakeapi.FailBefore)
		if err := f.rollback(desired, 1); err == nil {
			t.Fatal("no error")
		}
		f.With(func() { f.Fault = nil })
		f.must(desired, ActionRollback, CauseInterrupted)
		f.must(desired, ActionNone, CauseNone)
		for replicas := range 3 {
			f.must(demo(t, map[string]any{"replicaCount": replicas + 2}), ActionUpgrade, CauseInputsChanged)
		}
		if got := len(f.HelmRecords()); got > 2 {
			t.Errorf("the history is %s", f.HelmRecords())
		}
	})
}

// TestOutdatedDecisionIsNotExecuted: a decision is not executed if another client has changed the
// release since.
func TestOutdatedDecisionIsNotExecuted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		f.must(first(t), ActionInstall, CauseNotInstalled)
		desired := refusedSecond(t)
		_, err := f.reconcile(desired)
		_ = wantError[*RefusedError](t, err)
		decision := f.decide(desired)
		f.foreign(first(t), 3, common.StatusFailed, nil)
		synctest.Wait()
		f.TakeRequests()
		for _, action := range []Action{ActionUpgrade, ActionRollback} {
			decision.Action, decision.To = action, 1
			if _, err := f.engine.Execute(t.Context(), desired, decision, f.baseline); !errors.Is(err, ErrNotSynced) {
				t.Errorf("%s: the error is %v", action, err)
			}
		}
		wantRequests(t, f)
	})
}
