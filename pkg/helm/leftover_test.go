// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// keeping is a release with objects that stay after an uninstall, in its namespace and outside.
func keeping(t *testing.T, uid types.UID) Release {
	t.Helper()
	const metadata = "annotations: {helm.sh/resource-policy: keep}"
	desired := made(t, map[string]string{
		"templates/a.yaml":      configMap("a", "1"),
		"templates/kept.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, " + metadata + "}\ndata: {key: ours}\n",
		"templates/beside.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: beside, " + metadata + "}\n",
		"templates/role.yaml":   "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: kept, " + metadata + "}\n",
		"templates/crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com, " +
			metadata + "}\nspec: {group: example.com}\n",
	})
	owner := demoOwner()
	owner.UID = uid
	desired.Owner = &owner
	return desired
}

// uninstallFor uninstalls the release and returns the remaining objects.
func (f *fixture) uninstallFor(desired Release) string {
	f.t.Helper()
	left, err := f.engine.Uninstall(f.t.Context(), desired, f.baseline)
	if err != nil {
		f.t.Fatal(err)
	}
	f.baseline = Baseline{}
	synctest.Wait()
	return Enumerate(left)
}

// TestKeptObjectsAreTakenAgain: the same resource, applied again, has the objects that the uninstall
// of its former release kept.
func TestKeptObjectsAreTakenAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(map[bool]string{false: "in one process", true: "after a restart"}[restarts], func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.must(keeping(t, "u1"), ActionInstall, CauseNotInstalled)
				f.uninstallFor(keeping(t, "u1"))
				if restarts {
					f.restart()
				}
				uid := f.Object("ConfigMap", "default/kept").GetUID()
				f.must(keeping(t, "u2"), ActionInstall, CauseNotInstalled)
				f.must(keeping(t, "u2"), ActionNone, "")
				if got := f.Object("ConfigMap", "default/kept"); got.GetUID() != uid {
					t.Error("the kept object was replaced")
				}
				f.Edit("ConfigMap", "default/kept", "kubectl", change("theirs", "data", "key"))
				synctest.Wait()
				f.must(keeping(t, "u2"), ActionRepair, CauseDrift)
			})
		})
	}
}

// TestKeptObjectsOfOthersAreNotTaken: outside of the release's namespace, the marks of the release do
// not suffice, because tenants choose the name of the release.
func TestKeptObjectsOfOthersAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(keeping(t, "u1"), ActionInstall, CauseNotInstalled)
		f.uninstallFor(keeping(t, "u1"))
		desired := keeping(t, "u2")
		desired.Owner.Kind = "Other"
		before := f.Object("ClusterRole", "kept")
		_, err := f.reconcile(desired)
		conflict := wantError[*OwnershipConflictError](t, err)
		if conflict.Object.Namespace == "default" {
			t.Errorf("conflict over %s, want an object outside", conflict.Object)
		}
		if diff := cmp.Diff(before, f.Object("ClusterRole", "kept")); diff != "" {
			t.Errorf("the object outside (-before +after):\n%s", diff)
		}
	})
}

// TestKeptByItsUser: an object that a user keeps by the annotation stays when the owner is gone, and is
// taken again.
func TestKeptByItsUser(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		owner := demoOwner()
		desired.Owner = &owner
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			annotations := object.GetAnnotations()
			annotations[manifest.ResourcePolicyAnnotation] = "keep"
			object.SetAnnotations(annotations)
		})
		synctest.Wait()
		if got, want := f.uninstallFor(desired), "ConfigMap default/a (its resource policy keeps it)"; got != want {
			t.Errorf("left %q, want %q", got, want)
		}
		if owners := f.Object("ConfigMap", "default/a").GetOwnerReferences(); len(owners) > 0 {
			t.Errorf("the garbage collector would remove the object with its owner: %+v", owners)
		}
		f.must(desired, ActionInstall, CauseNotInstalled)
	})
}

// TestLeftovers: an uninstall names the objects that it leaves, and why.
func TestLeftovers(t *testing.T) {
	const statefulSet = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  volumeClaimTemplates: [{metadata: {name: data}}]\n"
	claim := func(f *fixture, name string) {
		f.Edit("PersistentVolumeClaim", "default/"+name, "controller", withFinalizer("kubernetes.io/pvc-protection"))
	}
	tests := map[string]struct {
		files  map[string]string
		change func(f *fixture)
		want   string
	}{
		"nothing": {map[string]string{"templates/a.yaml": configMap("a", "1")}, nil, ""},
		"kept": {
			map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/resource-policy: keep}}\n"},
			nil, "ConfigMap default/a (its resource policy keeps it)",
		},
		"replaced by a user": {
			map[string]string{"templates/a.yaml": configMap("a", "1")},
			func(f *fixture) {
				f.Remove("ConfigMap", "default/a")
				f.Edit("ConfigMap", "default/a", "kubectl", theirs)
			}, "ConfigMap default/a (it does not belong to the release)",
		},
		"held by finalizers": {
			map[string]string{"templates/a.yaml": configMap("a", "1")},
			func(f *fixture) {
				f.Edit("ConfigMap", "default/a", "kubectl", withFinalizer("example.com/a", "example.com/b"))
			},
			"ConfigMap default/a (its deletion waits for the finalizers example.com/a, example.com/b)",
		},
		"held by Kubernetes": {
			map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n"},
			func(f *fixture) { claim(f, "a") }, "",
		},
		"volumes of a StatefulSet": {
			map[string]string{"templates/db.yaml": statefulSet},
			func(f *fixture) {
				for _, name := range []string{"data-db-0", "data-db-1", "data-db-x", "data-dbs-0"} {
					claim(f, name)
				}
			},
			"PersistentVolumeClaim default/data-db-0 (a volume of a StatefulSet, which Kubernetes keeps), " +
				"PersistentVolumeClaim default/data-db-1 (a volume of a StatefulSet, which Kubernetes keeps)",
		},
		"volumes that go with their StatefulSet": {
			map[string]string{"templates/db.yaml": statefulSet + "  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}\n"},
			func(f *fixture) { claim(f, "data-db-0") }, "",
		},
		"an object of a hook": {
			map[string]string{
				"templates/a.yaml":    configMap("a", "1"),
				"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
			}, nil, "ConfigMap default/hook (a hook created it)",
		},
		"a file under crds": {
			map[string]string{
				"templates/a.yaml": configMap("a", "1"),
				"crds/thing.yaml":  "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: others.example.com}\nspec: {group: example.com, names: {kind: Thing}}\n",
			}, nil, "CustomResourceDefinition others.example.com (it is under crds/ of the chart)",
		},
		"a kind that is not served": {
			map[string]string{"templates/thing.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n"},
			func(f *fixture) { f.serveThings(false) }, "Thing thing (its kind is not served, so it cannot be found)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.serveThings(true)
				f.With(func() { f.React = establish })
				desired := made(t, test.files)
				f.must(desired, ActionInstall, CauseNotInstalled)
				if test.change != nil {
					test.change(f)
				}
				synctest.Wait()
				if got := f.uninstallFor(desired); got != test.want {
					t.Errorf("left %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestLeftoversWhileObjectsAreAwaited: the end of the wait still names the remaining objects.
func TestLeftoversWhileObjectsAreAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		release := held(t, f)
		const want = "ConfigMap default/kept (its resource policy keeps it)"
		for range 2 {
			left, err := f.engine.Uninstall(t.Context(), release, f.baseline)
			if got := Enumerate(left); got != want || err != nil {
				t.Errorf("left %q, error %v, want %q", got, err, want)
			}
		}
		synctest.Wait()
		remaining, err := f.engine.Remaining(t.Context(), release, f.baseline)
		if got := Enumerate(remaining); got != "ConfigMap default/a (its deletion waits for the finalizers example.com/a)" || err != nil {
			t.Errorf("remaining %q, error %v", got, err)
		}
	})
}
