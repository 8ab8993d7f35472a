// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestOwnershipConflict: a conflicting object of another client ends the attempt, and the attempt
// leaves no objects behind.
func TestOwnershipConflict(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		holder string
	}{
		"made by hand": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"app": "theirs"})
		}, "another client (field managers: kubectl)"},
		"of another release": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "other", manifest.ReleaseNamespaceAnnotation: "default"})
		}, "the Helm release default/other"},
		"of a release of that name elsewhere": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "other"})
		}, "the Helm release other/web"},
		"with our annotations, not managed by Helm": {func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"})
		}, "the Helm release default/web"},
	}
	for name, tc := range tests {
		t.Run("install/"+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				theirs := f.Edit("Deployment", "default/web", "kubectl", tc.change)
				for range 2 {
					_, err := f.reconcile(demo(t, nil))
					conflict := wantError[*OwnershipConflictError](t, err)
					if conflict.Holder != tc.holder || conflict.Object.String() != "Deployment default/web" {
						t.Errorf("conflict over %s with %q, want the holder %q", conflict.Object, conflict.Holder, tc.holder)
					}
					if !IsTerminal(err) {
						t.Error("the conflict is not terminal")
					}
					synctest.Wait()
					wantRecords(t, f)
					if diff := cmp.Diff([]string{"Deployment default/web"}, f.Names()); diff != "" {
						t.Errorf("objects (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(theirs, f.Object("Deployment", "default/web")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				f.Remove("Deployment", "default/web")
				f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
				wantRecords(t, f, "web.v1 deployed")
			})
		})
		t.Run("upgrade/"+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				first := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				f.must(first, ActionInstall, CauseNotInstalled)
				theirs := f.Edit("ConfigMap", "default/c", "kubectl", tc.change)
				second := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/c.yaml": configMap("c", "1")})
				_, err := f.reconcile(second)
				_ = wantError[*OwnershipConflictError](t, err)
				wantRecords(t, f, "web.v1 deployed")
				if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.Names()); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(theirs, f.Object("ConfigMap", "default/c")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				f.must(first, ActionNone, CauseNone)
				f.Remove("ConfigMap", "default/c")
				f.must(second, ActionUpgrade, CauseInputsChanged)
				wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
			})
		})
	}
}

// TestMarksDoNotProveOwnership: before the release's first record, marks of the release do not make
// an object outside of its namespace the release's, and an owner reference does not, either.
func TestMarksDoNotProveOwnership(t *testing.T) {
	owner := &metav1.OwnerReference{APIVersion: "v1", Kind: "App", Name: "web", UID: "1234", Controller: ptr.To(true)}
	marks := func(object *unstructured.Unstructured) {
		object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
		object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"})
	}
	own := func(object *unstructured.Unstructured) { object.SetOwnerReferences([]metav1.OwnerReference{*owner}) }
	foreign := func(object *unstructured.Unstructured) {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "App", Name: "another", UID: "5678", Controller: ptr.To(true)}})
	}
	const inside, elsewhere = "default", "elsewhere"
	tests := map[string]struct {
		manager, namespace string
		forge              func(*unstructured.Unstructured)
	}{
		"marks in another namespace":                         {"kubectl", elsewhere, marks},
		"owner reference":                                    {"kubectl", inside, own},
		"both in another namespace, by the engine's manager": {"helm", elsewhere, func(object *unstructured.Unstructured) { marks(object); own(object) }},
		"marks and another controller":                       {"kubectl", inside, func(object *unstructured.Unstructured) { marks(object); foreign(object) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{
					"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: " + test.namespace + "}\ndata: {key: ours}\n",
				})
				desired.Owner = owner
				theirs := f.Edit("ConfigMap", test.namespace+"/a", test.manager, test.forge)
				synctest.Wait()
				_, err := f.reconcile(desired)
				_ = wantError[*OwnershipConflictError](t, err)
				if diff := cmp.Diff(theirs, f.Object("ConfigMap", test.namespace+"/a")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				wantRecords(t, f)
			})
		})
	}
}

// TestTakeOver: objects that are marked as the release's own are taken, as Helm
// does, in a release that is to be adopted.
func TestTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"})
			object.Object["data"] = map[string]any{"key": "theirs", "more": "theirs"}
		})
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "ours")})
		desired.Adopt = true
		f.must(desired, ActionInstall, CauseNotInstalled)
		data, _, err := unstructured.NestedStringMap(f.Object("ConfigMap", "default/a").Object, "data")
		if diff := cmp.Diff(map[string]string{"key": "ours", "more": "theirs"}, data); diff != "" || err != nil {
			t.Errorf("data, %v (-want +got):\n%s", err, diff)
		}
	})
}

// TestInstallOverOwnObject: without any record or baseline, the owner reference still proves the
// ownership of an object, in a release with Adopt.
func TestInstallOverOwnObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		desired.Adopt = true
		desired.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "App", Name: "web", UID: "1234", Controller: ptr.To(true)}
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.SetAnnotations(nil)
			object.SetLabels(nil)
		})
		f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
		f.baseline = Baseline{}
		synctest.Wait()
		f.must(desired, ActionInstall, CauseNotInstalled)
		desired.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "App", Name: "other", UID: "5678", Controller: ptr.To(true)}
		f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
		f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		f.baseline = Baseline{}
		synctest.Wait()
		_, err := f.reconcile(desired)
		var conflict *OwnershipConflictError
		if !errors.As(err, &conflict) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestRecordDeletedDuringInstall: the first record is deleted before the caller knows of
// the install. The objects are known as the engine's own, by their UIDs.
func TestRecordDeletedDuringInstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.baseline = Baseline{}
		f.Remove("Secret", "default/"+record.SecretName("web", 1))
		synctest.Wait()

		f.must(desired, ActionInstall, CauseNotInstalled)

		wantRecords(t, f, "web.v1 deployed")
		f.must(desired, ActionNone, CauseNone)
	})
}
