// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// theirs makes the ConfigMap one of another client.
func theirs(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"mine": "yes"} }

// TestForeignObjectBeforeHooks: hooks do not run for a revision that cannot be,
// and nothing is left of it.
func TestForeignObjectBeforeHooks(t *testing.T) {
	hooked := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"),
			"templates/pre.yaml": hook("pre", "pre-install,pre-upgrade,pre-rollback", 0),
		})
	}
	only := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
	}
	tests := map[string]struct {
		// prepare comes before their object is made, attempt after it.
		prepare func(t *testing.T, f *fixture)
		attempt func(t *testing.T, f *fixture) error
		records []string
	}{
		"install": {
			prepare: func(*testing.T, *fixture) {},
			attempt: func(t *testing.T, f *fixture) error {
				t.Helper()
				_, err := f.reconcile(hooked(t))
				return err
			},
			records: []string{},
		},
		"upgrade": {
			prepare: func(t *testing.T, f *fixture) {
				t.Helper()
				f.must(only(t), ActionInstall, CauseNotInstalled)
			},
			attempt: func(t *testing.T, f *fixture) error {
				t.Helper()
				_, err := f.reconcile(hooked(t))
				return err
			},
			records: []string{"web.v1 deployed"},
		},
		"upgrade after a failure": {
			prepare: func(t *testing.T, f *fixture) {
				t.Helper()
				f.must(only(t), ActionInstall, CauseNotInstalled)
				f.With(func() { f.Refuse = refuseBad })
				_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "bad")}))
				_ = wantError[*RefusedError](t, err)
			},
			attempt: func(t *testing.T, f *fixture) error {
				t.Helper()
				_, err := f.reconcile(hooked(t))
				return err
			},
			records: []string{"web.v1 deployed", "web.v2 failed"},
		},
		"rollback": {
			prepare: func(t *testing.T, f *fixture) {
				t.Helper()
				f.must(hooked(t), ActionInstall, CauseNotInstalled)
				f.must(only(t), ActionUpgrade, CauseInputsChanged)
			},
			attempt: func(t *testing.T, f *fixture) error {
				t.Helper()
				return f.rollback(only(t), 1)
			},
			records: []string{"web.v1 superseded", "web.v2 deployed"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() { f.React = jobsEnd })
				tc.prepare(t, f)
				before := f.Edit("ConfigMap", "default/b", "kubectl", theirs)
				synctest.Wait()
				f.TakeRequests()
				names := f.Names()
				_ = wantError[*OwnershipConflictError](t, tc.attempt(t, f))
				for _, request := range f.TakeRequests() {
					if strings.Contains(request, "jobs") {
						t.Errorf("a hook was touched: %s", request)
					}
				}
				wantRecords(t, f, tc.records...)
				if diff := cmp.Diff(names, f.Names()); diff != "" {
					t.Errorf("objects (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(before, f.Object("ConfigMap", "default/b")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// TestReplacedUnseen: an object that another client created in place of the release's object is not
// overwritten, even if the watch lags.
func TestReplacedUnseen(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.HoldWatches(true)
		f.Remove("ConfigMap", "default/a")
		before := f.Edit("ConfigMap", "default/a", "kubectl", theirs)
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
		_, err := f.reconcile(desired)
		_ = wantError[*OwnershipConflictError](t, err)
		if diff := cmp.Diff(before, f.Object("ConfigMap", "default/a")); diff != "" {
			t.Errorf("their object (-before +after):\n%s", diff)
		}
		f.Remove("ConfigMap", "default/a")
		if _, err := f.reconcile(desired); err != nil {
			t.Errorf("with the name free again: %v", err)
		}
	})
}

// TestMarksGoneWithoutBaseline: objects that the release applied are recognized by their fields,
// too, and objects with another client's marks belong to that client.
func TestMarksGoneWithoutBaseline(t *testing.T) {
	tests := map[string]struct {
		do    func(f *fixture)
		taken bool
	}{
		"label removed": {func(f *fixture) {
			f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		}, true},
		"all marks removed": {func(f *fixture) {
			f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
				object.SetLabels(nil)
				object.SetAnnotations(nil)
			})
		}, true},
		"given to another release": {func(f *fixture) {
			f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
				object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "other", manifest.ReleaseNamespaceAnnotation: "default"})
			})
		}, true},
		"given to another tool": {func(f *fixture) {
			f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
				object.SetLabels(map[string]string{manifest.ManagedByLabel: "tool"})
			})
		}, true},
		"made anew by others": {func(f *fixture) {
			f.Remove("ConfigMap", "default/web")
			f.Edit("ConfigMap", "default/web", "kubectl", theirs)
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				desired.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "App", Name: "web", UID: "1234", Controller: ptr.To(true)}
				f.must(desired, ActionInstall, CauseNotInstalled)
				tc.do(f)
				f.baseline = Baseline{}
				f.restart()
				_, err := f.reconcile(desired)
				if tc.taken {
					if err != nil {
						t.Fatal(err)
					}
					f.must(desired, ActionNone, CauseNone)
					return
				}
				_ = wantError[*OwnershipConflictError](t, err)
			})
		})
	}
}

// TestSameDriftAcrossRelist: a repeated change that was just repaired is reported again, although
// the watch skipped the repair.
func TestSameDriftAcrossRelist(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		change := func() {
			f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["data"] = map[string]any{"index.html": "theirs"}
			})
		}
		change()
		synctest.Wait()
		f.HoldWatches(true)
		f.must(desired, ActionRepair, CauseDrift)
		f.heard()
		change()
		f.BreakWatches(true)
		f.HoldWatches(false)
		<-time.After(time.Minute)
		if got := f.heard(); !slices.Contains(got, "object default/web") {
			t.Errorf("heard %s", got)
		}
		f.must(desired, ActionRepair, CauseDrift)
	})
}
