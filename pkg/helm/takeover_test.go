// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestLegacyReleaseName compares with names that the algorithm of operator-sdk 0.x returned.
func TestLegacyReleaseName(t *testing.T) {
	tests := map[types.UID]string{
		"6ff7b4b9-0ba1-4cb3-9d1a-8b0f7a4c2d11": "web-6mmv3kslqrpf5ghh6g7q4zwup",
		"6FF7B4B9-0BA1-4CB3-9D1A-8B0F7A4C2D11": "web-6mmv3kslqrpf5ghh6g7q4zwup",
		"00ab0000-0000-4000-8000-000000000000": "web-01f9113k6l3buucd6qp97aww0",
		"00000000-0000-0000-0000-000000000001": "web-0000000000000001",
		"ffffffff-ffff-ffff-ffff-ffffffffffff": "web-f5lxx1zz5pnorynqglhzmsp33",
		"no UUID":                              "",
		"":                                     "",
	}
	for uid, want := range tests {
		if got := LegacyReleaseName("web", uid); got != want {
			t.Errorf("LegacyReleaseName(%q) = %q, want %q", uid, got, want)
		}
	}
}

// outsideRole is a cluster-scoped object of a chart.
const outsideRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: outside}\nrules: []\n"

// toAll consents to everything that a takeover would do.
func toAll(*ConsentError) bool { return true }

// takenOver is a release of a chart that is taken over for an owner.
func takenOver(t *testing.T, templates map[string]string) Release {
	t.Helper()
	desired := made(t, templates)
	desired.Takeover, desired.Consents = true, toAll
	desired.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "1", Controller: ptr.To(true)}
	return desired
}

// operate installs the release as another client does, who leaves no labels of the engine.
// References to the owner are optional.
func (f *fixture) operate(release Release, references ...metav1.OwnerReference) {
	f.t.Helper()
	f.must(release, ActionInstall, CauseNotInstalled)
	f.editRecord(func(secret *unstructured.Unstructured) {
		labels := secret.GetLabels()
		for key := range labels {
			if strings.HasPrefix(key, "engine.") {
				delete(labels, key)
			}
		}
		secret.SetLabels(labels)
		secret.SetOwnerReferences(references)
	})
	f.baseline = Baseline{}
	f.restart()
	f.TakeRequests()
}

// editRecord changes the Secret of the first revision.
func (f *fixture) editRecord(change func(*unstructured.Unstructured)) {
	f.t.Helper()
	f.Edit("Secret", "default/"+record.SecretName("web", 1), "kubectl", change)
	synctest.Wait()
}

// writes returns the write requests since the last call, without writes of records.
func (f *fixture) writes() []string {
	return slices.DeleteFunc(f.TakeRequests(), func(request string) bool {
		return strings.HasPrefix(request, "get ") || strings.HasPrefix(request, "list ") || strings.Contains(request, "/sh.helm.")
	})
}

// TestTakeoverOfReleases: releases of the owner or of the chart are taken over, and every other
// release is refused.
func TestTakeoverOfReleases(t *testing.T) {
	controller := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}
	}
	tests := map[string]struct {
		references []metav1.OwnerReference
		change     func(*releasev1.Release)
		// owners are the controllers of the objects a and b; empty for none.
		owners  [2]types.UID
		gone    bool
		desired func(*Release)
		holder  string
	}{
		"of the owner":                                     {references: []metav1.OwnerReference{controller("App", "web", "1")}},
		"of an earlier owner of that name":                 {references: []metav1.OwnerReference{controller("App", "web", "0")}},
		"of the owner, of a chart that changed":            {references: []metav1.OwnerReference{controller("App", "web", "1")}, change: renameChart},
		"without an owner, objects of the owner":           {owners: [2]types.UID{"1", "1"}},
		"without an owner, one object of the owner":        {owners: [2]types.UID{"1", ""}, holder: "another client"},
		"without an owner, one object of another owner":    {owners: [2]types.UID{"1", "2"}, holder: "another client"},
		"without an owner, objects without an owner":       {holder: "another client"},
		"without an owner, objects gone":                   {gone: true, holder: "another client"},
		"without an owner, consent of the administrator":   {desired: func(r *Release) { r.TakeoverUnmarked = true }},
		"without an owner, of another chart, with consent": {change: renameChart, desired: func(r *Release) { r.TakeoverUnmarked = true }, holder: `the chart "other"`},
		"without an owner, adopted":                        {desired: func(r *Release) { r.Adopt = true }},
		"of another kind":                                  {references: []metav1.OwnerReference{controller("Site", "web", "2")}, holder: "a Site"},
		"of another name":                                  {references: []metav1.OwnerReference{controller("App", "other", "2")}, holder: "a App"},
		"of an owner with an endless name":                 {references: []metav1.OwnerReference{controller("App", "web"+strings.Repeat("x", 1<<12), "2")}, holder: "a App"},
		"without an owner, of another chart":               {change: renameChart, holder: `the chart "other"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.operate(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")}), test.references...)
				if test.change != nil {
					f.forge(1, test.change)
				}
				for i, name := range []string{"default/a", "default/b"} {
					if test.owners[i] != "" {
						f.Edit("ConfigMap", name, "manager", func(object *unstructured.Unstructured) { setOwner(test.owners[i], object) })
					}
					if test.gone {
						f.Remove("ConfigMap", name)
					}
				}
				f.TakeRequests()
				desired := takenOver(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				if test.desired != nil {
					test.desired(&desired)
				}

				_, err := f.reconcile(desired)

				if test.holder == "" {
					if err != nil {
						t.Fatal(err)
					}
					f.must(desired, ActionNone, CauseNone)
					wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
					return
				}
				conflict := wantError[*OwnershipConflictError](t, err)
				if !conflict.OfRelease() || conflict.Holder != test.holder {
					t.Errorf("conflict over %s with %s", conflict.Object, conflict.Holder)
				}
				_, err = f.engine.Uninstall(t.Context(), desired, Baseline{})
				_ = wantError[*OwnershipConflictError](t, err)
				if writes := f.writes(); len(writes) > 0 {
					t.Errorf("the engine sent %v", writes)
				}
				wantRecords(t, f, "web.v1 deployed")
			})
		})
	}
}

func renameChart(rls *releasev1.Release) { rls.Chart.Metadata.Name = "other" }

// TestTakeoverOfObjects takes over an object that has the release's marks or the owner, and no
// other.
func TestTakeoverOfObjects(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		taken  bool
	}{
		"marks":           {func(*unstructured.Unstructured) {}, true},
		"owner, no marks": {func(object *unstructured.Unstructured) { setOwner("1", object); unmark(object) }, true},
		"marks and owner": {func(object *unstructured.Unstructured) { setOwner("1", object) }, true},
		"other owner":     {func(object *unstructured.Unstructured) { setOwner("2", object) }, false},
		"nothing":         {unmark, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.operate(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")}))
				f.Edit("ConfigMap", "default/a", "manager", test.change)
				f.Edit("ConfigMap", "default/b", "manager", test.change)
				desired := takenOver(t, map[string]string{"templates/a.yaml": configMap("a", "2")})
				desired.TakeoverUnmarked = true

				_, err := f.reconcile(desired)

				if !test.taken {
					_ = wantError[*OwnershipConflictError](t, err)
				} else if err != nil {
					t.Fatal(err)
				}
				if removed := f.Object("ConfigMap", "default/b") == nil; removed != test.taken {
					t.Errorf("the object that the chart no longer has is removed: %t", removed)
				}
			})
		})
	}
}

func setOwner(uid types.UID, object *unstructured.Unstructured) {
	object.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "App", Name: "owner-" + string(uid), UID: uid, Controller: ptr.To(true)},
	})
}

func unmark(object *unstructured.Unstructured) {
	object.SetLabels(nil)
	object.SetAnnotations(nil)
}

// forgedOutside names objects outside of the tenant's namespace.
const forgedOutside = "---\n" + outsideRole + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: outside, namespace: kube-system}\n"

// TestForgedRecordReachesNothingOutside is the attack of a tenant who forges a release record that
// names objects outside of the tenant's namespace. The objects have the marks of a release of the
// same name, which an administrator installed.
func TestForgedRecordReachesNothingOutside(t *testing.T) {
	claimed := func(f *fixture) {
		f.editRecord(func(secret *unstructured.Unstructured) {
			labels := secret.GetLabels()
			labels[record.InputsLabel] = "1-forged"
			record.OwnerOf(&metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "1"}).Label(labels)
			secret.SetLabels(labels)
		})
	}
	forgeries := map[string]func(f *fixture){
		"record without an owner": func(*fixture) {},
		"record that names the owner by reference": func(f *fixture) {
			f.editRecord(func(secret *unstructured.Unstructured) {
				secret.SetOwnerReferences([]metav1.OwnerReference{
					{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "1", Controller: ptr.To(true)},
				})
			})
		},
		"record that claims to be the engine's": claimed,
		"record of an interrupted upgrade": func(f *fixture) {
			f.editRecord(func(secret *unstructured.Unstructured) {
				labels := secret.GetLabels()
				labels[record.StatusLabel], labels[record.ModifiedAtLabel] = "pending-upgrade", "1"
				secret.SetLabels(labels)
			})
		},
	}
	kinds := map[string]func(f *fixture, desired *Release){
		"takeover":  func(_ *fixture, desired *Release) { desired.TakeoverUnmarked = true }, // The attack needs it, unless the record names the owner.
		"adoption":  func(_ *fixture, desired *Release) { desired.Takeover, desired.Adopt = false, true },
		"own owner": func(f *fixture, desired *Release) { desired.Takeover = false; claimed(f) },
	}
	attacks := map[string]struct {
		templates map[string]string
		act       func(f *fixture, desired Release) error
		conflict  bool
	}{
		"objects that the chart lacks": {
			templates: map[string]string{"templates/a.yaml": configMap("a", "2")},
			act:       func(f *fixture, desired Release) error { _, err := f.reconcile(desired); return err },
		},
		"object that the chart has": {
			templates: map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/role.yaml": outsideRole},
			act:       func(f *fixture, desired Release) error { _, err := f.reconcile(desired); return err },
			conflict:  true,
		},
		"uninstall": {
			templates: map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/role.yaml": outsideRole},
			act: func(f *fixture, desired Release) error {
				_, err := f.engine.Uninstall(f.t.Context(), desired, Baseline{})
				return err
			},
		},
	}
	for forgery, forge := range forgeries {
		for attack, test := range attacks {
			for kind, allow := range kinds {
				t.Run(forgery+", "+attack+", "+kind, func(t *testing.T) {
					bubble(t, func(t *testing.T, f *fixture) {
						f.operate(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}))
						f.forge(1, func(rls *releasev1.Release) { rls.Manifest += forgedOutside })
						mark := func(object *unstructured.Unstructured) {
							(&operation{release: made(t, nil).Key()}).claim(object)
						}
						role := f.Edit("ClusterRole", "outside", "helm", mark)
						other := f.Edit("ConfigMap", "kube-system/outside", "helm", mark)
						forge(f)
						desired := takenOver(t, test.templates)
						allow(f, &desired)

						err := test.act(f, desired)

						if test.conflict {
							conflict := wantError[*OwnershipConflictError](t, err)
							if conflict.Object.Kind != "ClusterRole" {
								t.Errorf("conflict over %s", conflict.Object)
							}
						} else if err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(role, f.Object("ClusterRole", "outside")); diff != "" {
							t.Errorf("ClusterRole (-before +after):\n%s", diff)
						}
						if diff := cmp.Diff(other, f.Object("ConfigMap", "kube-system/outside")); diff != "" {
							t.Errorf("ConfigMap (-before +after):\n%s", diff)
						}
					})
				})
			}
		}
	}
}

// TestOwnObjectsOutside: the engine names the owner on objects outside the namespace, so that it
// knows its own objects when the baseline is lost, with and without [Release.Takeover].
func TestOwnObjectsOutside(t *testing.T) {
	for _, takeover := range []bool{true, false} {
		t.Run(fmt.Sprintf("takeover %t", takeover), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := takenOver(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/role.yaml": outsideRole})
				desired.Takeover = takeover
				f.must(desired, ActionInstall, CauseNotInstalled)
				role := f.Object("ClusterRole", "outside")
				want := map[string]string{
					PrimaryResourceAnnotation: "default/web", PrimaryResourceTypeAnnotation: "App.example.com",
					manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default",
				}
				if diff := cmp.Diff(want, role.GetAnnotations()); diff != "" {
					t.Errorf("annotations (-want +got):\n%s", diff)
				}
				f.baseline = Baseline{}
				f.restart()

				f.must(desired, ActionInstall, CauseUnverified)

				f.must(desired, ActionNone, CauseNone)
				if uid := f.Object("ClusterRole", "outside").GetUID(); uid != role.GetUID() {
					t.Errorf("the ClusterRole has the UID %s, want %s", uid, role.GetUID())
				}
				f.baseline = Baseline{}
				f.restart()
				f.uninstall(desired)
				if left := f.Names(); len(left) > 0 {
					t.Errorf("%v are left", left)
				}
			})
		})
	}
}

// TestRestoredObjectOutside: a restored object has another UID. An earlier version of the engine did
// not name the owner on it, but the baseline has the object.
func TestRestoredObjectOutside(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := takenOver(t, map[string]string{"templates/role.yaml": outsideRole})
		desired.Takeover = false
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Remove("ClusterRole", "outside")
		restored := f.Edit("ClusterRole", "outside", "velero", func(object *unstructured.Unstructured) {
			(&operation{release: desired.Key()}).claim(object)
		})
		synctest.Wait()

		f.must(desired, ActionRepair, CauseDrift)

		if uid := f.Object("ClusterRole", "outside").GetUID(); uid != restored.GetUID() {
			t.Errorf("the ClusterRole has the UID %s, want %s", uid, restored.GetUID())
		}
	})
}

// TestObjectOutsideIsHandedOver: an administrator ends a conflict over an object outside the
// namespace by the annotations that the message names.
func TestObjectOutsideIsHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := takenOver(t, map[string]string{"templates/role.yaml": outsideRole})
		f.Edit("ClusterRole", "outside", "kubectl", func(object *unstructured.Unstructured) {
			(&operation{release: desired.Key()}).claim(object)
		})
		_, err := f.reconcile(desired)
		conflict := wantError[*OwnershipConflictError](t, err)
		const want = "if it belongs to this release, annotate it with operator-sdk/primary-resource=default/web and operator-sdk/primary-resource-type=App.example.com"
		if conflict.Remedy != want {
			t.Errorf("remedy %q, want %q", conflict.Remedy, want)
		}

		f.Edit("ClusterRole", "outside", "kubectl", func(object *unstructured.Unstructured) {
			(&operation{release: desired.Key(), primary: desired.Owner}).markOwner(object)
		})

		if seen, err := f.engine.InTheWay(t.Context(), desired, conflict.Object); err != nil || seen == conflict.Seen {
			t.Errorf("the annotations change nothing: %v", err)
		}
		f.must(desired, ActionInstall, CauseNotInstalled)
	})
}

// TestTakeoverOfUnmarkedObjects takes over objects that an upstream operator created again: without
// Helm's marks, and with the annotations of the owner where an owner reference is not possible. Marks of
// another release, of another owner, or a part of them prove nothing.
func TestTakeoverOfUnmarkedObjects(t *testing.T) {
	named := map[string]string{PrimaryResourceAnnotation: "default/web", PrimaryResourceTypeAnnotation: "App.example.com"}
	with := func(changes ...string) map[string]string {
		annotations := maps.Clone(named)
		for i := 0; i < len(changes); i += 2 {
			annotations[changes[i]] = changes[i+1]
		}
		return annotations
	}
	tests := map[string]struct {
		annotations map[string]string
		manager     string
		taken       bool
	}{
		"annotations of the owner":           {annotations: named, taken: true},
		"and the label of the chart":         {annotations: named, manager: "Helm", taken: true},
		"and the marks of the release":       {annotations: with(manifest.ReleaseNameAnnotation, "web", manifest.ReleaseNamespaceAnnotation, "default"), manager: "Helm", taken: true},
		"and a mark of another release":      {annotations: with(manifest.ReleaseNameAnnotation, "other"), manager: "Helm"},
		"and a release of another namespace": {annotations: with(manifest.ReleaseNameAnnotation, "web", manifest.ReleaseNamespaceAnnotation, "other")},
		"and another manager":                {annotations: named, manager: "other"},
		"annotations of another owner":       {annotations: with(PrimaryResourceAnnotation, "other/web")},
		"annotations of another kind":        {annotations: with(PrimaryResourceTypeAnnotation, "Other.example.com")},
		"one annotation":                     {annotations: map[string]string{PrimaryResourceAnnotation: "default/web"}},
		"nothing":                            {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				templates := map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/role.yaml": outsideRole}
				owner := takenOver(t, nil).Owner
				f.operate(made(t, templates), *owner)
				f.Edit("ClusterRole", "outside", "Go-http-client", func(object *unstructured.Unstructured) {
					unmark(object)
					object.SetAnnotations(test.annotations)
					if test.manager != "" {
						object.SetLabels(map[string]string{manifest.ManagedByLabel: test.manager})
					}
				})
				f.TakeRequests()
				templates["templates/a.yaml"] = configMap("a", "2")
				desired := takenOver(t, templates)

				_, err := f.reconcile(desired)

				if !test.taken {
					_ = wantError[*OwnershipConflictError](t, err)
					wantRecords(t, f, "web.v1 deployed")
					if writes := f.writes(); len(writes) > 0 {
						t.Errorf("the refused takeover sent %v", writes)
					}
					delete(templates, "templates/role.yaml")
					f.must(takenOver(t, templates), ActionUpgrade, CauseReleaseChanged)
					if f.Object("ClusterRole", "outside") == nil {
						t.Error("the object of another owner was removed")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				f.must(desired, ActionNone, CauseNone)
				f.uninstall(desired)
				if left := f.Names(); len(left) > 0 {
					t.Errorf("%v are left", left)
				}
			})
		})
	}
}

// TestTakeoverRemovesUnmarkedObject removes an object that an upstream operator created again and that the
// chart no longer has.
func TestTakeoverRemovesUnmarkedObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		owner := takenOver(t, nil).Owner
		f.operate(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/role.yaml": outsideRole}), *owner)
		f.Edit("ClusterRole", "outside", "Go-http-client", func(object *unstructured.Unstructured) {
			unmark(object)
			object.SetAnnotations(map[string]string{PrimaryResourceAnnotation: "default/web", PrimaryResourceTypeAnnotation: "App.example.com"})
		})

		if _, err := f.reconcile(takenOver(t, map[string]string{"templates/a.yaml": configMap("a", "1")})); err != nil {
			t.Fatal(err)
		}

		if f.Object("ClusterRole", "outside") != nil {
			t.Error("the object is left")
		}
	})
}

// TestRefusedUpgradeChangesNothing: an upgrade finds an object of another owner before it changes an object.
func TestRefusedUpgradeChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/z", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"app": "other"}) })
		f.TakeRequests()

		_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/z.yaml": configMap("z", "2")}))

		_ = wantError[*OwnershipConflictError](t, err)
		if writes := f.writes(); len(writes) > 0 {
			t.Errorf("the refused upgrade sent %v", writes)
		}
		wantRecords(t, f, "web.v1 deployed")
	})
}

// TestClientSideManagers finds the managers whose fields move to server-side apply in a takeover.
func TestClientSideManagers(t *testing.T) {
	const mark = `{"f:metadata":{"f:annotations":{"f:meta.helm.sh/release-name":{}}}}`
	entry := func(manager, subresource, fields string, operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	tests := map[string]struct {
		entry metav1.ManagedFieldsEntry
		taken bool
	}{
		"Helm's mark":                        {entry("manager", "", mark, metav1.ManagedFieldsOperationUpdate), true},
		"no mark":                            {entry("manager", "", `{"f:data":{"f:key":{}}}`, metav1.ManagedFieldsOperationUpdate), false},
		"a user's mark":                      {entry("kubectl-annotate", "", mark, metav1.ManagedFieldsOperationUpdate), false},
		"mark by server-side apply":          {entry("manager", "", mark, metav1.ManagedFieldsOperationApply), false},
		"mark in a subresource":              {entry("manager", "status", mark, metav1.ManagedFieldsOperationUpdate), false},
		"fields that cannot be decoded":      {entry("manager", "", `{"f:`, metav1.ManagedFieldsOperationUpdate), false},
		"helm-operator, which needs no mark": {entry("helm-operator", "", `{}`, metav1.ManagedFieldsOperationUpdate), true},
		"without a name, a field of the manifest": {
			entry("Go-http-client", "", `{"f:data":{"f:key":{},"f:other":{}}}`, metav1.ManagedFieldsOperationUpdate), true,
		},
		"without a name, other fields": {entry("Go-http-client", "", `{"f:data":{"f:other":{}}}`, metav1.ManagedFieldsOperationUpdate), false},
		"without a name, the label of upstream": {
			entry("Go-http-client", "", `{"f:metadata":{"f:labels":{"f:helm.sdk.operatorframework.io/chart":{}}}}`, metav1.ManagedFieldsOperationUpdate), true,
		},
		"without a name, in a subresource": {
			entry("Go-http-client", "status", `{"f:data":{"f:key":{}}}`, metav1.ManagedFieldsOperationUpdate), false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{test.entry}}
			former := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": "value"}}}

			managers := upstreamManagers(object, former)

			if managers.Has(test.entry.Manager) != test.taken {
				t.Errorf("the managers are %v", managers.UnsortedList())
			}
			if without := upstreamManagers(object, nil); without.Has("Go-http-client") {
				t.Error("without a manifest, a client without a name is taken")
			}
			if without := (&operation{}).clientSideManagers(nil)(object); without.Len() != 1 || !without.Has(FieldManager) {
				t.Errorf("without a takeover, the managers are %v", without.UnsortedList())
			}
		})
	}
}
