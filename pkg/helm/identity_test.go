// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// thingOf is a release with a Thing of a version and a ConfigMap.
func thingOf(t *testing.T, version, data string) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/thing.yaml":     "apiVersion: example.com/" + version + "\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  data: " + data + "\n",
		"templates/configmap.yaml": configMap("config", data),
	})
}

// serveThingsAs serves the Things in another version only, with the same objects.
func (f *fixture) serveThingsAs(version string) {
	f.t.Helper()
	f.ServeVersion(thingsResource, version)
	f.Edit("CustomResourceDefinition", "things.example.com", "kubectl", change(time.Now().String(), "spec", "changed"))
	synctest.Wait()
	<-time.After(served.StaleInterval)
	f.heard()
	f.TakeRequests()
}

// TestVersionNoLongerServed: an object is the same in all versions of its kind. If the version of the
// manifest is not served any more, the object is found in another one.
func TestVersionNoLongerServed(t *testing.T) {
	dropped := func(t *testing.T, test func(*testing.T, *fixture)) {
		t.Helper()
		bubble(t, func(t *testing.T, f *fixture) {
			f.serveThings(true)
			f.must(thingOf(t, "v1", "one"), ActionInstall, CauseNotInstalled)
			f.serveThingsAs("v2")
			test(t, f)
		})
	}
	for _, restarts := range []bool{false, true} {
		name := "uninstall"
		if restarts {
			name += " after a restart"
		}
		t.Run(name, func(t *testing.T) {
			dropped(t, func(t *testing.T, f *fixture) {
				if restarts {
					f.restart()
				}
				f.uninstall(thingOf(t, "v1", "one"))
				if got := f.Names(); len(got) > 1 {
					t.Errorf("left behind: %s", got)
				}
			})
		})
	}
	t.Run("uninstall before discovery shows it", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.serveThings(true)
			f.must(thingOf(t, "v1", "one"), ActionInstall, CauseNotInstalled)
			f.ServeVersion(thingsResource, "v2")
			if err := f.tryUninstall(thingOf(t, "v1", "one")); err == nil {
				t.Error("the object counts as gone, because its version is not served")
			}
			<-time.After(served.StaleInterval)
			f.uninstall(thingOf(t, "v1", "one"))
			if f.Object("Thing", "default/thing") != nil {
				t.Error("the object is still there")
			}
		})
	})
	t.Run("uninstall without records", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
			synctest.Wait()
			f.uninstall(thingOf(t, "v1", "one"))
			if f.Object("Thing", "default/thing") != nil {
				t.Error("the object is still there")
			}
		})
	})
	t.Run("uninstall waits for the object", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.Edit("Thing", "default/thing", "kubectl", withFinalizer("example.com/a"))
			synctest.Wait()
			desired := thingOf(t, "v1", "one")
			desired.AwaitRemoval, desired.Timeout = true, time.Second
			f.uninstall(desired)
			synctest.Wait()
			wantRemaining(t, f, desired, "Thing default/thing")
		})
	})
	t.Run("nothing drifts", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.must(thingOf(t, "v1", "one"), ActionNone, "")
			f.TakeDiscoveries()
			f.must(thingOf(t, "v1", "one"), ActionNone, "")
			if got := f.TakeDiscoveries(); got > 0 {
				t.Errorf("%d requests for discovery at rest", got)
			}
		})
	})
	t.Run("drift of the object names the version, other objects are repaired", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.Edit("Thing", "default/thing", "kubectl", change("theirs", "spec", "data"))
			f.Edit("ConfigMap", "default/config", "kubectl", change("theirs", "data", "key"))
			synctest.Wait()
			decision, err := f.reconcile(thingOf(t, "v1", "one"))
			if decision.Action != ActionRepair || !meta.IsNoMatchError(err) || IsTerminal(err) ||
				!strings.Contains(err.Error(), "the API server serves the kind as example.com/v2: set this apiVersion in the chart") {
				t.Fatalf("decided on %+v, error %v, want one that names the version", decision, err)
			}
			if diff := cmp.Diff([]string{"apply configmaps default/config"}, f.TakeRequests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("upgrade to the other version changes the object in place", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			before := f.Object("Thing", "default/thing")
			f.must(thingOf(t, "v2", "two"), ActionUpgrade, CauseInputsChanged)
			if after := f.Object("Thing", "default/thing"); after == nil || after.GetUID() != before.GetUID() {
				t.Errorf("the object is %v, want the one with UID %s", after, before.GetUID())
			}
			f.must(thingOf(t, "v2", "two"), ActionNone, "")
		})
	})
	t.Run("upgrade to the other version migrates managed fields that the API server cannot convert", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			migrated := false
			f.With(func() {
				f.Fault = func(request fakeapi.Request) fakeapi.Fault {
					migrated = migrated || request.String() == "patch things default/thing"
					if request.String() == "apply things default/thing" && !migrated {
						return fakeapi.FailBefore
					}
					return fakeapi.NoFault
				}
			})
			f.must(thingOf(t, "v2", "two"), ActionUpgrade, CauseInputsChanged)
			for _, entry := range f.Object("Thing", "default/thing").GetManagedFields() {
				if entry.APIVersion != "example.com/v2" {
					t.Errorf("managed fields of %s have the version %s", entry.Manager, entry.APIVersion)
				}
			}
		})
	})
	t.Run("upgrade to the other version knows an object without marks", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.Edit("Thing", "default/thing", "kubectl", withoutMarks)
			synctest.Wait()
			f.must(thingOf(t, "v2", "two"), ActionUpgrade, CauseInputsChanged)
		})
	})
	t.Run("upgrade without the object removes it", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.must(withoutThing(t, "two"), ActionUpgrade, CauseInputsChanged)
			if f.Object("Thing", "default/thing") != nil {
				t.Error("the object is still there")
			}
		})
	})
	t.Run("rollback to the version fails before anything is changed", func(t *testing.T) {
		dropped(t, func(t *testing.T, f *fixture) {
			f.must(thingOf(t, "v2", "two"), ActionUpgrade, CauseInputsChanged)
			f.TakeRequests()
			err := f.rollback(thingOf(t, "v2", "two"), 1)
			if !meta.IsNoMatchError(err) || IsTerminal(err) || !strings.Contains(err.Error(), "example.com/v2") {
				t.Fatalf("error is %v, want one that names the version", err)
			}
			if got := f.TakeRequests(); len(got) > 0 {
				t.Errorf("requests were made: %s", got)
			}
		})
	})
}

// TestScopeOfKindChanged: a kind that comes back with another scope has other objects. No object of
// the release is left, and no foreign object is removed.
func TestScopeOfKindChanged(t *testing.T) {
	for _, records := range []bool{true, false} {
		t.Run(map[bool]string{true: "with records", false: "without records"}[records], func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.serveThings(true)
				f.must(thingOf(t, "v1", "one"), ActionInstall, CauseNotInstalled)
				if !records {
					f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
				}
				f.serveThings(false)
				f.Serve(thingsResource, thingKind.Kind, false)
				f.Edit("Thing", "thing", "kubectl", change("theirs", "spec", "data"))
				f.Edit("CustomResourceDefinition", "things.example.com", "kubectl", change(time.Now().String(), "spec", "changed"))
				synctest.Wait()
				<-time.After(served.StaleInterval)
				f.uninstall(thingOf(t, "v1", "one"))
				if diff := cmp.Diff([]string{"CustomResourceDefinition things.example.com", "Thing thing"}, f.Names()); diff != "" {
					t.Errorf("left behind (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNamespaceOfObjectChanged: an object that the chart moves to another namespace does not stay in
// the former one.
func TestNamespaceOfObjectChanged(t *testing.T) {
	in := func(t *testing.T, namespace string) Release {
		t.Helper()
		return made(t, map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: " + namespace + "}\n"})
	}
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(in(t, "one"), ActionInstall, CauseNotInstalled)
		f.must(in(t, "two"), ActionUpgrade, CauseInputsChanged)
		if diff := cmp.Diff([]string{"ConfigMap two/a"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		f.uninstall(in(t, "three"))
		if got := f.Names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}
