// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/test/expect"
)

// hooked is a release for an owner, with hooks that stay after they have run.
func hooked(t *testing.T, uid types.UID) Release {
	t.Helper()
	once := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"" +
			", helm.sh/hook-delete-policy: hook-failed"
	}
	desired := made(t, map[string]string{
		"templates/a.yaml":     configMap("a", "1"),
		"templates/once.yaml":  once("once") + "}}\n",
		"templates/kept.yaml":  once("kept") + ", helm.sh/resource-policy: keep}}\n",
		"templates/role.yaml":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: role, annotations: {helm.sh/hook: pre-install}}\n",
		"templates/job.yaml":   hook("job", "post-install,post-upgrade", 0, "before-hook-creation"),
		"templates/clean.yaml": hook("clean", "pre-delete", 0, "before-hook-creation"),
		"templates/end.yaml":   hook("end", "post-delete", 0, "before-hook-creation"),
	})
	desired.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: uid, Controller: new(true)}
	return desired
}

// hookOwners returns the UIDs of the controllers of hooks.
func (f *fixture) hookOwners() map[string]types.UID {
	owners := map[string]types.UID{}
	for _, hook := range [][2]string{{"ConfigMap", "default/once"}, {"ConfigMap", "default/kept"}, {"ClusterRole", "role"}, {"Job", "default/job"}} {
		owners[hook[1]] = ""
		if controller := metav1.GetControllerOf(f.Object(hook[0], hook[1])); controller != nil {
			owners[hook[1]] = controller.UID
		}
	}
	return owners
}

// TestHooksOfAnOwner: hooks belong to the owner as objects do, and nothing in the release's namespace
// stays after the owner is deleted, unless the chart keeps it.
func TestHooksOfAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		f.must(hooked(t, "1"), ActionInstall, CauseNotInstalled)
		expect.Equal(t, "owners", map[string]types.UID{"default/once": "1", "default/kept": "", "role": "", "default/job": "1"}, f.hookOwners())
		expect.Equal(t, "owner of the ClusterRole", "default/web", f.Object("ClusterRole", "role").GetAnnotations()[PrimaryResourceAnnotation])

		left := f.uninstallFor(hooked(t, "1"))

		expect.Equal(t, "left", "ConfigMap default/kept (its resource policy keeps it), ClusterRole role (a hook created it)", left)
		for _, gone := range [][2]string{{"ConfigMap", "default/once"}, {"Job", "default/job"}, {"Job", "default/clean"}, {"Job", "default/end"}} {
			if f.Object(gone[0], gone[1]) != nil {
				t.Errorf("%s %s is left", gone[0], gone[1])
			}
		}
	})
}

// TestHooksThatAreLetGo: hooks stay after an owner is deleted with the propagation policy Orphan, and
// belong to the owner that continues the release.
func TestHooksThatAreLetGo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		f.must(hooked(t, "1"), ActionInstall, CauseNotInstalled)

		expect.NoError(t, f.engine.LetGo(t.Context(), hooked(t, "1"), f.baseline))
		synctest.Wait()

		none := map[string]types.UID{"default/once": "", "default/kept": "", "role": "", "default/job": ""}
		expect.Equal(t, "owners", none, f.hookOwners())
		f.baseline = Baseline{}
		f.must(hooked(t, "2"), ActionUpgrade, CauseInputsChanged)
		expect.Equal(t, "next owners", map[string]types.UID{"default/once": "2", "default/kept": "", "role": "", "default/job": "2"}, f.hookOwners())
	})
}

// TestHookOfAFormerOwner: a hook that the garbage collector has not removed yet is replaced.
func TestHookOfAFormerOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		f.Edit("ConfigMap", "default/once", FieldManager, func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
			object.SetOwnerReferences([]metav1.OwnerReference{*hooked(t, "1").Owner})
		})
		f.must(hooked(t, "2"), ActionInstall, CauseNotInstalled)
		expect.Equal(t, "owner", types.UID("2"), f.hookOwners()["default/once"])
		expect.Equal(t, "owners", 1, len(f.Object("ConfigMap", "default/once").GetOwnerReferences()))
	})
}
