// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// stripOwners removes the owner references of objects, as the garbage collector does.
func stripOwners(f *fixture, objects ...string) {
	f.t.Helper()
	for _, kind := range objects {
		f.Edit(kind, "default/web", "kube-controller-manager", func(object *unstructured.Unstructured) { object.SetOwnerReferences(nil) })
	}
	synctest.Wait()
}

// TestLetGo: objects and records stay. The same owner, created again, continues the release without
// Adopt. An owner of another kind needs Adopt.
func TestLetGo(t *testing.T) {
	tests := map[string]struct {
		collected []string
		// update is the number of objects that still had the owner.
		patches int
	}{
		"before the garbage collector": {nil, 4},
		"after the garbage collector":  {[]string{"ConfigMap", "Deployment", "Secret", "Service"}, 0},
		// An operation that was running has written the owner again.
		"after an operation at the same time": {[]string{"ConfigMap", "Deployment", "Secret"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := owned(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				stripOwners(f, test.collected...)
				f.TakeRequests()

				for range 2 { // A repeated pass does no harm.
					expect.NoError(t, f.engine.LetGo(t.Context(), desired, f.baseline))
					synctest.Wait()
				}

				patches := 0
				for _, request := range f.TakeRequests() {
					if len(request) > 5 && request[:5] == "patch" {
						patches++
					}
				}
				expect.Equal(t, "patches", test.patches, patches)
				for _, kind := range []string{"ConfigMap", "Deployment", "Secret", "Service"} {
					object := f.Object(kind, "default/web")
					expect.Equal(t, "owners of "+kind, 0, len(object.GetOwnerReferences()))
				}
				wantRecords(t, f, "web.v1 deployed")
				expect.Equal(t, "owner in the record", record.Released, f.Object("Secret", "default/"+record.SecretName("web", 1)).GetLabels()[record.OwnerLabel])

				f.baseline = Baseline{}
				f.restart()
				other, next := owned(t, nil), owned(t, nil)
				other.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "2", Controller: new(true)}
				next.Owner.UID = "next"
				_, err := f.reconcile(other)
				_ = wantError[*OwnershipConflictError](t, err)
				f.must(next, ActionUpgrade, CauseInputsChanged)
				if controller := metav1.GetControllerOf(f.Object("Service", "default/web")); controller == nil || controller.UID != "next" {
					t.Errorf("the Service belongs to %v", controller)
				}
				f.must(next, ActionNone, CauseNone)
				f.uninstall(next)
				expect.Equal(t, "objects", []string{}, f.Names())
			})
		})
	}
}

// TestLetGoForeignRelease: a release of another owner is not changed.
func TestLetGoForeignRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		other := owned(t, nil)
		other.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "2", Controller: new(true)}
		f.must(other, ActionInstall, CauseNotInstalled)
		f.TakeRequests()

		err := f.engine.LetGo(t.Context(), owned(t, nil), Baseline{})

		_ = wantError[*OwnershipConflictError](t, err)
		wantRequests(t, f)
	})
}

// TestOrphaned: only the garbage collector's change of all objects counts as a deletion with the
// propagation policy Orphan.
func TestOrphaned(t *testing.T) {
	edit := func(kind string, change func(*unstructured.Unstructured)) func(*fixture) {
		return func(f *fixture) { f.Edit(kind, "default/web", "kubectl", change) }
	}
	strip := func(kinds ...string) func(*fixture) {
		return func(f *fixture) { stripOwners(f, kinds...) }
	}
	tests := []struct {
		name    string
		changes []func(*fixture)
		want    bool
	}{
		{name: "nothing happened"},
		{name: "all lost the owner", changes: []func(*fixture){strip("ConfigMap", "Deployment", "Secret", "Service")}, want: true},
		{name: "one lost the owner", changes: []func(*fixture){strip("ConfigMap")}},
		{name: "one has the owner", changes: []func(*fixture){strip("ConfigMap", "Deployment", "Secret")}},
		{
			name: "the others are gone", want: true,
			changes: []func(*fixture){strip("Deployment"), func(f *fixture) {
				for _, kind := range []string{"ConfigMap", "Secret", "Service"} {
					f.Remove(kind, "default/web")
				}
			}},
		},
		{name: "all are gone", changes: []func(*fixture){func(f *fixture) {
			for _, kind := range []string{"ConfigMap", "Deployment", "Secret", "Service"} {
				f.Remove(kind, "default/web")
			}
		}}},
		{
			name: "the only object without the owner belongs to another one",
			changes: []func(*fixture){
				func(f *fixture) {
					for _, kind := range []string{"Deployment", "Secret", "Service"} {
						f.Remove(kind, "default/web")
					}
				},
				edit("ConfigMap", func(object *unstructured.Unstructured) {
					object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "2", Controller: new(true)}})
				}),
			},
		},
		{
			name: "objects of that name were created again", changes: []func(*fixture){func(f *fixture) {
				for _, kind := range []string{"ConfigMap", "Deployment", "Secret", "Service"} {
					f.Remove(kind, "default/web")
				}
				f.Edit("ConfigMap", "default/web", "kubectl", func(*unstructured.Unstructured) {})
			}},
		},
		{
			name: "the record was let go", want: true,
			changes: []func(*fixture){func(f *fixture) {
				f.Edit("Secret", "default/"+record.SecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
					labels := secret.GetLabels()
					labels[record.OwnerLabel] = record.Released
					secret.SetLabels(labels)
				})
			}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := owned(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				for _, change := range test.changes {
					change(f)
				}
				f.restart()

				got, err := f.engine.Orphaned(t.Context(), desired, f.baseline)

				expect.NoError(t, err)
				expect.Equal(t, "orphaned", test.want, got)
			})
		})
	}
}

// TestOrphanedLooksAtOneObject: in a usual deletion, the first object shows that the owner is not
// orphaned.
func TestOrphanedLooksAtOneObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.TakeRequests()

		_, err := f.engine.Orphaned(t.Context(), desired, f.baseline)

		expect.NoError(t, err)
		expect.Equal(t, "requests", 1, len(f.TakeRequests()))
	})
}

// TestOrphanedWithoutEvidence: kept objects never have an owner, and objects that may not be read show
// nothing.
func TestOrphanedWithoutEvidence(t *testing.T) {
	tests := map[string]struct {
		template string
		fault    fakeapi.Fault
		failed   bool
	}{
		"kept":          {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {" + manifest.ResourcePolicyAnnotation + ": keep}\n", fakeapi.NoFault, false},
		"forbidden":     {configMap("a", "1"), fakeapi.AnswerForbidden, false},
		"another error": {configMap("a", "1"), fakeapi.FailBefore, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/a.yaml": test.template})
				desired.Owner = owned(t, nil).Owner
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
					object.SetOwnerReferences(nil)
					object.SetLabels(map[string]string{"changed": "true"})
				})
				synctest.Wait()
				f.With(func() {
					f.Fault = func(request fakeapi.Request) fakeapi.Fault {
						if request.Verb == "get" {
							return test.fault
						}
						return fakeapi.NoFault
					}
				})

				got, err := f.engine.Orphaned(t.Context(), desired, f.baseline)

				expect.Equal(t, "orphaned", false, got)
				expect.Equal(t, "failed", test.failed, err != nil)
			})
		})
	}
}
