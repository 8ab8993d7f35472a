// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// held is a release of which other clients keep an object from being deleted.
func held(t *testing.T, f *fixture) Release {
	t.Helper()
	desired := made(t, map[string]string{
		"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"),
		"templates/kept.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
	})
	desired.AwaitRemoval = true
	f.must(desired, ActionInstall, CauseNotInstalled)
	f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/a"}) })
	synctest.Wait()
	return desired
}

func (f *fixture) remaining(release Release) []string {
	f.t.Helper()
	found, err := f.engine.Remaining(f.t.Context(), release, f.baseline)
	if err != nil {
		f.t.Fatal(err)
	}
	names := []string{}
	for _, object := range found {
		names = append(names, object.Object.String())
	}
	return names
}

func (f *fixture) uninstall(release Release) {
	f.t.Helper()
	if err := f.tryUninstall(release); err != nil {
		f.t.Fatal(err)
	}
}

// tryUninstall returns the error of an uninstall.
func (f *fixture) tryUninstall(release Release) error {
	_, err := f.engine.Uninstall(f.t.Context(), release, f.baseline)
	return err
}

func wantRemaining(t *testing.T, f *fixture, release Release, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.remaining(release)); diff != "" {
		t.Errorf("remaining objects (-want +got):\n%s", diff)
	}
}

func TestRemaining(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := held(t, f)
		wantRemaining(t, f, release)
		f.uninstall(release)
		f.heard()
		f.TakeRequests()

		wantRemaining(t, f, release, "ConfigMap default/a")
		f.uninstall(release)
		wantRemaining(t, f, release, "ConfigMap default/a")

		wantRequests(t, f)
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		if diff := cmp.Diff([]string{"object default/web"}, f.heard()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		f.uninstall(release)
		wantRemaining(t, f, release)
		wantRequests(t, f)
	})
}

// TestRemainingBeforeWatchEvent: an object counts until the watch has shown its deletion,
// which is then published.
func TestRemainingBeforeWatchEvent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := held(t, f)
		f.HoldWatches(true)
		f.uninstall(release)

		wantRemaining(t, f, release, "ConfigMap default/a", "ConfigMap default/b")

		f.HoldWatches(false)
		if heard := f.heard(); !slices.Contains(heard, "object default/web") {
			t.Errorf("published %s, want the end of an object", heard)
		}
		wantRemaining(t, f, release, "ConfigMap default/a")
	})
}

// TestRemainingAfterRestart: a process that did not begin the deletion finds the objects.
func TestRemainingAfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := held(t, f)
		f.uninstall(release)
		f.restart()

		f.uninstall(release)

		wantRemaining(t, f, release, "ConfigMap default/a")
		f.heard()
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		if diff := cmp.Diff([]string{"object default/web"}, f.heard()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		wantRemaining(t, f, release)
	})
}

// TestOwnDeletionIsNotPublished: without AwaitRemoval, nothing follows an uninstall.
func TestOwnDeletionIsNotPublished(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		other := made(t, map[string]string{"templates/z.yaml": configMap("z", "1")})
		other.Name = "other"
		f.must(other, ActionInstall, CauseNotInstalled) // It keeps the kind watched.
		f.baseline = Baseline{}
		release := held(t, f)
		release.AwaitRemoval = false
		f.uninstall(release)
		f.heard()

		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })

		if heard := f.heard(); len(heard) > 0 {
			t.Errorf("published %s", heard)
		}
	})
}

// TestForgetEndsWaitForRemoval: a release of the same name is uninstalled like any other.
func TestForgetEndsWaitForRemoval(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := held(t, f)
		f.uninstall(release)

		f.engine.Forget(release.Key())

		if f.engine.watcher.Awaits(release.Key()) {
			t.Error("the release is still awaited")
		}
	})
}
