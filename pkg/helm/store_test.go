// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// TestStoreQuery: Helm gets only the parts of the history that it reads, and cached records cause
// no requests.
func TestStoreQuery(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		for revision := range 2 {
			f.must(demo(t, map[string]any{"replicaCount": revision + 2}), ActionUpgrade, CauseInputsChanged)
		}
		synctest.Wait()
		f.TakeRequests()
		open := func() *store { return f.open(desired) }
		query := func(s *store, labels map[string]string) []string {
			found, err := s.Query(labels)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range found {
				rls := item.(*releasev1.Release)
				got = append(got, fmt.Sprintf("v%d %s, manifest: %t", rls.Version, rls.Info.Status, rls.Manifest != ""))
			}
			return got
		}
		all := map[string]string{"name": "web", "owner": "helm"}
		want := []string{"v1 superseded, manifest: false", "v2 superseded, manifest: false", "v3 deployed, manifest: true"}
		if diff := cmp.Diff(want, query(open(), all)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		deployed := map[string]string{"name": "web", "owner": "helm", "status": "deployed"}
		if diff := cmp.Diff(want[2:], query(open(), deployed)); diff != "" {
			t.Errorf("deployed (-want +got):\n%s", diff)
		}
		wantRequests(t, f)

		f.restart()
		f.TakeRequests()
		if diff := cmp.Diff(want, query(open(), all)); diff != "" {
			t.Errorf("history after a restart (-want +got):\n%s", diff)
		}
		wantRequests(t, f, "get secrets default/sh.helm.release.v1.web.v3")

		hidden := open()
		hidden.replaced = f.engine.records.Latest(desired.Key())
		if diff := cmp.Diff([]string{"v1 superseded, manifest: false", "v2 superseded, manifest: true"}, query(hidden, all)); diff != "" {
			t.Errorf("history without what is replaced (-want +got):\n%s", diff)
		}
		for name, labels := range map[string]map[string]string{
			"another release":  {"name": "other", "owner": "helm"},
			"a status of none": {"name": "web", "owner": "helm", "status": "failed"},
		} {
			if _, err := open().Query(labels); !errors.Is(err, driver.ErrReleaseNotFound) {
				t.Errorf("%s: error is %v, want ErrReleaseNotFound", name, err)
			}
		}
		if _, err := open().List(nil); err == nil {
			t.Error("the releases of other names can be listed")
		}
	})
}

// TestReplaceFailsAfterWriteOfAnotherEngine: of two engines that want to take the place of
// one failed attempt, the second finds out before it changes any object.
func TestReplaceFailsAfterWriteOfAnotherEngine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "bad")})
		_, err := f.reconcile(desired)
		_ = wantError[*RefusedError](t, err)
		f.With(func() { f.Refuse = nil })
		synctest.Wait()
		f.HoldWatches(true)
		f.Edit("Secret", "default/sh.helm.release.v1.web.v1", "other", change("here", "metadata", "annotations", "other"))
		_, err = f.reconcile(desired)
		_ = wantError[*BusyError](t, err)
		if got := f.Names(); len(got) > 0 {
			t.Errorf("objects %s, want none", got)
		}
		f.HoldWatches(false)
		synctest.Wait()
		if _, err := f.reconcile(desired); err != nil {
			t.Fatal(err)
		}
		wantRecords(t, f, "web.v1 deployed")
	})
}
