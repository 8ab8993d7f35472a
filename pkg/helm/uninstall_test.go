// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/test/fakeapi"
)

func TestUninstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		for revision := range 4 {
			f.must(demo(t, map[string]any{"replicaCount": revision + 2}), ActionUpgrade, CauseInputsChanged)
		}
		synctest.Wait()
		f.TakeRequests()
		f.uninstall(desired)
		wantRequests(t, f,
			"delete services default/web", "delete deployments default/web", "delete configmaps default/web", "delete secrets default/web",
			"deletecollection secrets default",
		)
		wantRecords(t, f)
		if got := f.Names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
		if _, err := f.engine.Uninstall(t.Context(), desired, Baseline{}); err != nil {
			t.Errorf("nothing to uninstall: %v", err)
		}
		wantRequests(t, f)
		f.must(desired, ActionInstall, CauseNotInstalled)
	})
}

// TestUninstallPreconditions: an object that replaced ours between the read and the deletion is not
// deleted.
func TestUninstallPreconditions(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.HoldWatches(true)
		f.Remove("ConfigMap", "default/web")
		f.Edit("ConfigMap", "default/web", "kubectl", func(*unstructured.Unstructured) {})
		f.uninstall(desired)
		if diff := cmp.Diff([]string{"ConfigMap default/web"}, f.Names()); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestUninstallLeaves: objects that do not belong to the release are not deleted.
func TestUninstallLeaves(t *testing.T) {
	kept := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations: {helm.sh/resource-policy: keep}\n"
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/kept.yaml": kept,
		})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "other", manifest.ReleaseNamespaceAnnotation: "default"})
		})
		synctest.Wait()
		f.uninstall(desired)
		if diff := cmp.Diff([]string{"ConfigMap default/b", "ConfigMap default/kept"}, f.Names()); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestUninstallDeletesUnmarkedObjects: an object that the release created is deleted, even if
// another client removed its marks.
func TestUninstallDeletesUnmarkedObjects(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetAnnotations(nil) })
		f.Edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		synctest.Wait()
		f.uninstall(desired)
		if got := f.Names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}

// TestUninstallWithoutRecords: if another client deleted the records, the inventory names the
// objects to remove.
func TestUninstallWithoutRecords(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
		synctest.Wait()
		gone := InventoryEntry{ObjectReference: ObjectReference{APIVersion: "example.com/v1", Kind: "Gone", Namespace: "default", Name: "web"}}
		f.baseline.Inventory = append(f.baseline.Inventory, gone)
		f.uninstall(desired)
		if got := f.Names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}

// TestUninstallOfAnUnansweredInstall: a record is removed, even if its create request got no answer
// and the watch does not show it yet.
func TestUninstallOfAnUnansweredInstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.HoldWatches(true)
		f.With(func() {
			f.Fault = func(request fakeapi.Request) fakeapi.Fault {
				if request.String() == "create secrets default" {
					return fakeapi.LoseAnswer
				}
				return fakeapi.NoFault
			}
		})
		if _, err := f.reconcile(desired); err == nil {
			t.Fatal("no error although the answer was lost")
		}
		wantRecords(t, f, "web.v1 pending-install")
		f.With(func() { f.Fault = nil })
		f.uninstall(desired)
		f.HoldWatches(false)
		synctest.Wait()
		if got := f.Names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
		wantRecords(t, f)
		f.TakeRequests()
		f.uninstall(desired)
		wantRequests(t, f)
	})
}

// TestUninstallFails: a release that cannot be deleted completely keeps its records, so that the
// next attempt knows what to do, also without a status.
func TestUninstallFails(t *testing.T) {
	for _, test := range []struct {
		refused string
		lost    bool
	}{
		{"delete services default/web", false},
		{"delete services default/web", true},
		{"deletecollection secrets default", false},
		{"deletecollection secrets default", true},
	} {
		t.Run(fmt.Sprintf("%s, status lost %t", test.refused, test.lost), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				synctest.Wait()
				f.With(func() {
					f.Fault = func(request fakeapi.Request) fakeapi.Fault {
						if request.String() == test.refused {
							return fakeapi.FailBefore
						}
						return fakeapi.NoFault
					}
				})
				if _, err := f.engine.Uninstall(t.Context(), desired, f.baseline); !apierrors.IsInternalError(err) {
					t.Fatalf("error is %v, want the API server's", err)
				}
				wantRecords(t, f, "web.v1 uninstalling")
				f.With(func() { f.Fault = nil })
				if test.lost {
					f.baseline = Baseline{}
					f.restart()
				}
				f.uninstall(desired)
				wantRecords(t, f)
				if got := f.Names(); len(got) > 0 {
					t.Errorf("left behind: %s", got)
				}
			})
		})
	}
}

// TestRecordWithFinalizer: a deleted record that a finalizer holds does not stop the next install,
// also of another process. Its revision can be used again.
func TestRecordWithFinalizer(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restarts), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				first, second := demo(t, nil), demo(t, map[string]any{"replicaCount": 2})
				f.must(first, ActionInstall, CauseNotInstalled)
				f.must(second, ActionUpgrade, CauseInputsChanged)
				synctest.Wait()
				for _, name := range []string{"sh.helm.release.v1.web.v1", "sh.helm.release.v1.web.v2"} {
					f.Edit("Secret", "default/"+name, "kubectl", func(secret *unstructured.Unstructured) {
						secret.SetFinalizers([]string{"example.com/held"})
					})
				}
				f.uninstall(second)
				f.baseline = Baseline{}
				if restarts {
					f.restart()
				}
				synctest.Wait()

				f.must(first, ActionInstall, CauseNotInstalled)
				f.must(second, ActionUpgrade, CauseInputsChanged)
				synctest.Wait()

				wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
				f.must(second, ActionNone, "")
			})
		})
	}
}

// TestUninstallWithHooks: while a hook runs, the record says that the release is being uninstalled.
func TestUninstallWithHooks(t *testing.T) {
	for _, event := range []string{"pre-delete", "post-delete"} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/never.yaml": hook("never", event, 0)})
				f.must(desired, ActionInstall, CauseNotInstalled)
				failed := make(chan error, 1)

				go func() { failed <- f.tryUninstall(desired) }()
				synctest.Wait()

				wantRecords(t, f, "web.v1 uninstalling")
				if err := <-failed; err == nil {
					t.Error("the uninstall did not wait for its hook")
				}
			})
		})
	}
}
