// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestReleaseTimeout: the timeout of a release may be shorter or longer than the default.
func TestReleaseTimeout(t *testing.T) {
	const timeout = 42 * time.Second
	never := func(*unstructured.Unstructured) bool { return false }
	operations := map[string]struct {
		event string
		run   func(f *fixture, desired Release) error
	}{
		"install": {"pre-install", func(f *fixture, desired Release) error {
			_, err := f.reconcile(desired)
			return err
		}},
		"upgrade": {"pre-upgrade", func(f *fixture, desired Release) error {
			_, err := f.reconcile(desired)
			return err
		}},
		"rollback": {"pre-rollback", func(f *fixture, desired Release) error { return f.rollback(desired, 1) }},
		"uninstall": {"pre-delete", func(f *fixture, desired Release) error {
			return f.tryUninstall(desired)
		}},
	}
	for name, tc := range operations {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() { f.React = never })
				hooked := made(t, map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/slow.yaml": hook("slow", tc.event, 0)})
				hooked.Timeout = timeout
				plain := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				switch name {
				case "upgrade":
					f.must(plain, ActionInstall, CauseNotInstalled)
				case "rollback":
					f.must(hooked, ActionInstall, CauseNotInstalled)
					f.must(plain, ActionUpgrade, CauseInputsChanged)
				case "uninstall":
					f.must(hooked, ActionInstall, CauseNotInstalled)
				}
				started := time.Now()
				if err := tc.run(f, hooked); err == nil {
					t.Error("a hook that never ends ended")
				}
				if took := time.Since(started); took < timeout || took > timeout+recordGrace {
					t.Errorf("gave up after %s, want %s", took, timeout)
				}
			})
		})
	}
	t.Run("patience", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			desired.Timeout = time.Hour
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.foreign(desired, 2, common.StatusPendingUpgrade, nil)
			synctest.Wait()
			if got := f.decide(desired); got.Action != ActionWait || got.RetryAfter <= DefaultTimeout {
				t.Errorf("decided on %+v", got)
			}
		})
	})
}

// TestReleaseMaxHistory: at full history, an upgrade costs one request more.
func TestReleaseMaxHistory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		revision := func(replicas, history int) Release {
			desired := demo(t, map[string]any{"replicaCount": replicas})
			desired.MaxHistory = history
			return desired
		}
		f.must(revision(1, 0), ActionInstall, CauseNotInstalled)
		f.must(revision(1, 3), ActionNone, CauseNone) // The limits are no inputs.
		for replicas := 2; replicas < 5; replicas++ {
			f.must(revision(replicas, 3), ActionUpgrade, CauseInputsChanged)
		}
		wantRecords(t, f, "web.v2 superseded", "web.v3 superseded", "web.v4 deployed")
		f.TakeRequests()
		f.must(revision(6, 3), ActionUpgrade, CauseInputsChanged)
		const record = " secrets default/sh.helm.release.v1.web.v"
		wantRequests(t, f, "delete"+record+"2", "create secrets default", "apply deployments default/web", "update"+record+"4", "update"+record+"5")
		f.TakeRequests()
		if err := f.rollback(revision(6, 3), 3); err != nil {
			t.Fatal(err)
		}
		// The target of the rollback and the deployed revision are kept.
		wantRequests(t, f, "create secrets default", "apply deployments default/web", "update"+record+"5", "update"+record+"6")
		f.must(revision(7, 1), ActionUpgrade, CauseInputsChanged)
		wantRecords(t, f, "web.v6 superseded", "web.v7 deployed")
		f.must(revision(8, 0), ActionUpgrade, CauseInputsChanged)
		wantRecords(t, f, "web.v6 superseded", "web.v7 superseded", "web.v8 deployed")
	})
}
