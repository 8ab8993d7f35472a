// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestReleaseOfAnotherOwner: a release of an owner of another kind is not changed. A release of
// another client is changed only with Adopt.
func TestReleaseOfAnotherOwner(t *testing.T) {
	tests := map[string]func(f *fixture){
		"of another kind": func(f *fixture) {
			other := owned(f.t, nil)
			other.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "2", Controller: ptr.To(true)}
			f.must(other, ActionInstall, CauseNotInstalled)
		},
		"made by others": func(f *fixture) {
			f.must(demo(f.t, nil), ActionInstall, CauseNotInstalled)
			f.forge(1, func(*releasev1.Release) {})
			f.Edit("Secret", "default/"+record.SecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
				labels := secret.GetLabels()
				maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "engine.") })
				secret.SetLabels(labels)
			})
		},
	}
	for name, install := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				install(f)
				f.baseline = Baseline{}
				f.restart()
				f.TakeRequests()
				desired := owned(t, map[string]any{"replicaCount": 5})

				decision, err := f.reconcile(desired)

				conflict := wantError[*OwnershipConflictError](t, err)
				if decision.Action != ActionRefuse || decision.Cause != CauseOtherOwner || conflict.Object.Kind != "Release" {
					t.Errorf("decided on %s (%s), conflict over %s", decision.Action, decision.Cause, conflict.Object)
				}
				_ = wantError[*OwnershipConflictError](t, f.tryUninstall(desired))
				wantRequests(t, f)
				assertNothingForged(t, f)
				wantRecords(t, f, "web.v1 deployed")

				desired.Adopt = true
				if name == "of another kind" {
					_, err := f.reconcile(desired)
					conflict := wantError[*OwnershipConflictError](t, err)
					if conflict.Holder != "a Site" {
						t.Errorf("the holder is %s", conflict.Holder)
					}
					return
				}
				f.must(desired, ActionUpgrade, CauseReleaseChanged)
				desired.Adopt = false
				f.must(desired, ActionNone, CauseNone)
				assertNothingForged(t, f)
			})
		})
	}
}

// TestReleaseThatWasLetGo: the owner that let a release go neither changes nor uninstalls it,
// although its status still has the release. It takes the release back only with Adopt.
func TestReleaseThatWasLetGo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(owned(t, nil), ActionInstall, CauseNotInstalled)
		f.Edit("Secret", "default/"+record.SecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
			labels := secret.GetLabels()
			labels[record.OwnerLabel] = record.Released
			delete(labels, record.OwnerKindLabel)
			secret.SetLabels(labels)
		})
		synctest.Wait()
		f.TakeRequests()
		desired := owned(t, map[string]any{"replicaCount": 5})

		decision, err := f.reconcile(desired)

		_ = wantError[*OwnershipConflictError](t, err)
		if decision.Action != ActionRefuse || decision.Cause != CauseOtherOwner {
			t.Errorf("decided on %s (%s)", decision.Action, decision.Cause)
		}
		_ = wantError[*OwnershipConflictError](t, f.tryUninstall(desired))
		wantRequests(t, f)
		wantRecords(t, f, "web.v1 deployed")

		desired.Adopt = true
		if decision, err = f.reconcile(desired); err != nil || decision.Action != ActionUpgrade {
			t.Errorf("with Adopt, decided on %s (%s): %v", decision.Action, decision.Cause, err)
		}
		desired.Adopt = false
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestOwnerCreatedAgain: an owner of the same kind and name takes over the release of
// its predecessor.
func TestOwnerCreatedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(owned(t, nil), ActionInstall, CauseNotInstalled)
		f.baseline = Baseline{}
		f.restart()
		desired := owned(t, nil)
		desired.Owner.UID = "another"

		f.must(desired, ActionUpgrade, CauseInputsChanged)

		if controller := metav1.GetControllerOf(f.Object("Service", "default/web")); controller == nil || controller.UID != "another" {
			t.Errorf("the Service belongs to %v", controller)
		}
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestCopyWithFormerOwner: a backup tool created an object again with its former owner, which the engine
// does not own by apply. The object has one controller afterwards.
func TestCopyWithFormerOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(owned(t, nil), ActionInstall, CauseNotInstalled)
		f.baseline = Baseline{}
		f.restart()
		was := f.Object("Service", "default/web")
		f.Remove("Service", "default/web")
		f.Edit("Service", "default/web", "restore", func(object *unstructured.Unstructured) {
			object.SetLabels(was.GetLabels())
			object.SetAnnotations(was.GetAnnotations())
			object.SetOwnerReferences(was.GetOwnerReferences())
			object.Object["spec"] = was.Object["spec"]
		})
		desired := owned(t, nil)
		desired.Owner.UID = "another"

		f.must(desired, ActionUpgrade, CauseInputsChanged)

		if owners := f.Object("Service", "default/web").GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "another" {
			t.Errorf("the Service belongs to %v", owners)
		}
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestRecordNamesTheGenerationOfItsOwner: another generation with the same inputs needs no
// revision.
func TestRecordNamesTheGenerationOfItsOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		desired.OwnerGeneration = 3
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.restart()

		if got := f.engine.records.Latest(desired.Key()).Owner.Generation; got != 3 {
			t.Errorf("the record names generation %d, want 3", got)
		}
		desired.OwnerGeneration = 4
		f.must(desired, ActionNone, CauseNone)
	})
}
