// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// refuseChange refuses changes of an existing object, as of an immutable field.
func refuseChange(kind, name string) func(fakeapi.Request, *unstructured.Unstructured) error {
	return func(request fakeapi.Request, object *unstructured.Unstructured) error {
		if request.Verb != "apply" || object.GetKind() != kind || object.GetName() != name || object.GetUID() == "" {
			return nil
		}
		return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "selector"), "b", "field is immutable"),
		})
	}
}

// replaceable is a release of a Deployment and a ConfigMap. The API server refuses to change
// the Deployment after the install.
func replaceable(t *testing.T, f *fixture) Release {
	t.Helper()
	desired := made(t, map[string]string{
		"templates/a.yaml": configMap("a", "{{ .Values.v }}"),
		"templates/b.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {selector: {matchLabels: {v: \"{{ .Values.v }}\"}}}\n",
	})
	desired.ForceReplace, desired.Values = true, map[string]any{"v": "1"}
	f.must(desired, ActionInstall, CauseNotInstalled)
	f.With(func() { f.Refuse = refuseChange("Deployment", "b") })
	desired.Values = map[string]any{"v": "2"}
	synctest.Wait()
	f.TakeRequests()
	return desired
}

func TestForceReplace(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := replaceable(t, f)
		before := f.Object("Deployment", "default/b")

		f.must(desired, ActionUpgrade, CauseInputsChanged)

		wantSteps(t, f, "upgrade",
			"apply configmaps default/a", "apply deployments default/b", "create deployments default",
			"delete deployments default/b", "apply deployments default/b",
		)
		after := f.Object("Deployment", "default/b")
		if after == nil || after.GetUID() == before.GetUID() {
			t.Errorf("the Deployment is %v, want a new one", after)
		}
		f.must(desired, ActionNone, CauseNone)
		if heard := f.heard(); len(heard) > 0 {
			t.Errorf("own changes were published: %s", heard)
		}
	})
}

// TestForceReplaceInRollback: a rollback replaces the objects that the failed upgrade has replaced.
func TestForceReplaceInRollback(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := replaceable(t, f)
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		synctest.Wait()
		desired.ForceReplace, desired.RollbackForceReplace = false, true

		if err := f.rollback(desired, 1); err != nil {
			t.Fatal(err)
		}
		selector, _, _ := unstructured.NestedString(f.Object("Deployment", "default/b").Object, "spec", "selector", "matchLabels", "v")
		if selector != "1" {
			t.Errorf("the Deployment selects %q, want the one of revision 1", selector)
		}
	})
}

// TestForceReplaceWaits: an object with finalizers is gone before it is created again.
func TestForceReplaceWaits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := replaceable(t, f)
		f.Edit("Deployment", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/a"}) })
		synctest.Wait()
		caller, done := &waits{}, make(chan error, 1)
		go func() {
			_, err := f.engine.Execute(caller.context(t.Context()), desired, Decision{Action: ActionUpgrade, Cause: CauseInputsChanged}, f.baseline)
			done <- err
		}()

		<-time.After(time.Second) // It waits for the deletion.
		f.Edit("Deployment", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if *caller != (waits{begun: 1, ended: 1}) {
			t.Errorf("the caller was told of %+v, want one wait that ended", *caller)
		}
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
	})
}

// TestForceReplaceLeaves: an object is not replaced without need and proof.
func TestForceReplaceLeaves(t *testing.T) {
	tests := map[string]struct {
		arrange func(f *fixture, desired *Release)
		reason  string // Part of the error.
	}{
		"without the option": {func(_ *fixture, desired *Release) { desired.ForceReplace = false }, "spec.selector"},
		"an object that is not the engine's by UID": {func(f *fixture, _ *Release) {
			live := f.Object("Deployment", "default/b")
			f.Remove("Deployment", "default/b")
			f.Edit("Deployment", "default/b", "kubectl", func(object *unstructured.Unstructured) {
				object.SetLabels(live.GetLabels())
				object.SetAnnotations(live.GetAnnotations())
			})
		}, "spec.selector"},
		"a kept object": {func(f *fixture, _ *Release) {
			f.Edit("Deployment", "default/b", "kubectl", change("keep", "metadata", "annotations", manifest.ResourcePolicyAnnotation))
		}, "its annotation helm.sh/resource-policy keeps it"},
		"a new object that is refused, too": {func(f *fixture, _ *Release) {
			refuse := refuseChange("Deployment", "b")
			f.With(func() {
				f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
					if request.String() == "create deployments default" {
						request.Verb = "apply"
						object.SetUID("x")
					}
					return refuse(request, object)
				}
			})
		}, "spec.selector"},
		"a policy's refusal": {func(f *fixture, _ *Release) {
			f.With(func() {
				f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
					if request.String() != "apply deployments default/b" {
						return nil
					}
					answer := apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), "b", nil)
					answer.ErrStatus.Message = "denied by policy"
					return answer
				}
			})
		}, "denied by policy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := replaceable(t, f)
				test.arrange(f, &desired)
				synctest.Wait()
				before := f.Object("Deployment", "default/b").GetUID()

				_, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionUpgrade, Cause: CauseInputsChanged}, f.baseline)

				_ = wantError[*RefusedError](t, err)
				if !strings.Contains(err.Error(), test.reason) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error is %q, want one line with %q", err, test.reason)
				}
				if after := f.Object("Deployment", "default/b"); after == nil || after.GetUID() != before {
					t.Errorf("the Deployment is %v, want the one with UID %s", after, before)
				}
			})
		})
	}
}

// TestForceReplaceKeepsData: objects with data are not deleted.
func TestForceReplaceKeepsData(t *testing.T) {
	templates := map[string]string{
		"PersistentVolumeClaim": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: b}\nspec: {volumeName: \"{{ .Values.v }}\"}\n",
		"Namespace":             "apiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: {v: \"{{ .Values.v }}\"}}\n",
		"CustomResourceDefinition": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
			"metadata: {name: b, labels: {v: \"{{ .Values.v }}\"}}\n",
		"StatefulSet": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: b}\n" +
			"spec: {serviceName: \"{{ .Values.v }}\", persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}\n",
	}
	for kind, template := range templates {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/b.yaml": template})
				desired.ForceReplace, desired.Values = true, map[string]any{"v": "1"}
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.With(func() { f.Refuse = refuseChange(kind, "b") })
				desired.Values = map[string]any{"v": "2"}

				_, err := f.reconcile(desired)

				if !IsTerminal(err) || !apierrors.IsInvalid(err) {
					t.Errorf("error is %v, want a terminal one with the API server's answer", err)
				}
				kept := wantError[*NotReplacedError](t, err)
				if !strings.Contains(kept.Reason, "data") {
					t.Errorf("reason is %q", kept.Reason)
				}
				for _, name := range f.Names() {
					if strings.HasPrefix(name, kind) {
						return
					}
				}
				t.Errorf("the %s is gone", kind)
			})
		})
	}
}

// TestForceReplaceFails: an object that could not be created again is created by the retry.
func TestForceReplaceFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := replaceable(t, f)
		refuse := refuseChange("Deployment", "b")
		quota := errors.New("exceeded quota")
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
				if request.Verb == "apply" && object.GetName() == "b" && object.GetUID() == "" {
					return apierrors.NewForbidden(request.Key.Resource.GroupResource(), "b", quota)
				}
				return refuse(request, object)
			}
		})

		_, err := f.reconcile(desired)

		if !apierrors.IsForbidden(err) || IsTerminal(err) || !strings.Contains(err.Error(), "was deleted, and was not created again") {
			t.Errorf("error is %v, want the quota's, not terminal", err)
		}
		f.With(func() { f.Refuse = refuse })
		f.must(desired, ActionUpgrade, CauseFailed)
		if diff := cmp.Diff([]string{"ConfigMap default/a", "Deployment default/b"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}
