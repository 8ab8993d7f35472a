// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

const deployer = "system:serviceaccount:default:deployer"

// forbidden is the answer to a request without permission.
func forbidden(resource, name, text string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New(text))
}

// TestServiceAccount: requests for the release are sent as the service account, and those for
// the custom resource are not.
func TestServiceAccount(t *testing.T) {
	kind := caches(t)
	kind.ServiceAccountName = "deployer"
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "7"} })
		w.Settle()
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
		for _, request := range w.Requests() {
			want := deployer
			if request.Key.Resource == memcacheds || request.Verb == "discover" || request.Verb == "list" || request.Verb == "watch" {
				want = ""
			}
			if request.User != want {
				t.Errorf("%s was sent as %q, want %q", request, request.User, want)
			}
		}
	})
}

// TestServiceAccountWithoutRights: the message names the verb, resource, namespace and account of
// the missing permission.
func TestServiceAccountWithoutRights(t *testing.T) {
	tests := map[string]struct {
		resource, text string
		conditions     []string
		hint           string
	}{
		"the operator may not impersonate": {
			"serviceaccounts", `User "operator" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "default"`,
			[]string{"Irreconcilable True ErrorGettingClient"},
			"",
		},
		"the account may not create": {
			"configmaps", `User "` + deployer + `" cannot patch resource "configmaps" in API group "" in the namespace "default"`,
			[]string{"Irreconcilable True ReconcileError", "ReleaseFailed True InstallError"},
			"check that ServiceAccount default/deployer exists and has this permission",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind := caches(t)
			kind.ServiceAccountName = "deployer"
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.With(func() {
					w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
						if request.User == deployer && (tc.resource == "serviceaccounts" || tc.resource == request.Key.Resource.Resource) {
							return forbidden(tc.resource, "deployer", tc.text)
						}
						return nil
					}
				})
				w.create("default/a", size3)
				w.has("conditions", w.conditions("default/a"), tc.conditions...)
				expect.Contains(w.t, "message", w.message("default/a", "Irreconcilable"), tc.text, tc.hint)

				w.With(func() { w.Refuse = nil })
				w.Wait(10 * time.Minute)
				w.has("conditions with the right", w.conditions("default/a"), "Irreconcilable False Reconciled", "Deployed True InstallSuccessful")
				expect.Equal(w.t, "message", "", w.message("default/a", "ReleaseFailed"))
			})
		})
	}
}

// TestReleaseFailed: the reason names the action that failed. The condition is absent after
// a success.
func TestReleaseFailed(t *testing.T) {
	refuse := func(w *world, size string) {
		w.With(func() {
			w.Validate = func(object *unstructured.Unstructured) error {
				if got, _, _ := unstructured.NestedString(object.Object, "data", "size"); object.GetKind() == "ConfigMap" && got == size {
					return forbidden("configmaps", "", "the size is refused")
				}
				return nil
			}
		})
	}
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		refuse(w, "3")
		w.create("default/a", size3)
		w.has("conditions", w.conditions("default/a"), "ReleaseFailed True InstallError", "Irreconcilable True ReconcileError")
		expect.Equal(w.t, "message of Deployed before the first install", "", w.message("default/a", "Deployed"))
		expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "the size is refused")

		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(4)} })
		w.Wait(time.Minute)
		expect.Equal(w.t, "message after a success", "", w.message("default/a", "ReleaseFailed"))
		w.has("conditions after a success", w.conditions("default/a"), "Irreconcilable False Reconciled", "Ready True Healthy")

		refuse(w, "5")
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError", "Deployed True UpgradeSuccessful")
		w.Wait(time.Minute)
		w.has("conditions after the rollback", w.conditions("default/a"), "ReleaseFailed True UpgradeError", "Ready False RolledBack", "Deployed True UpgradeSuccessful")
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(6)} })
		w.has("conditions after another change", w.conditions("default/a"), "Irreconcilable False Reconciled", "Ready True Healthy")

		refuse(w, "6")
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "7"} })
		w.Settle()
		w.has("conditions", w.conditions("default/a"), "ReleaseFailed True ReconcileError", "Irreconcilable True ReconcileError")
	})
}

// TestFailedUninstall: the deletion is retried until it succeeds.
func TestFailedUninstall(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.With(func() { w.Fault = failDeletions })
		w.Delete("Memcached", "default/a")
		w.Settle()
		w.has("conditions", w.conditions("default/a"),
			"ReleaseFailed True UninstallError", "Irreconcilable True ReconcileError", "Ready False UninstallFailed")
		expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "ConfigMap", "injected before the effect")
		w.With(func() { w.Fault = nil })
		w.Wait(10 * time.Minute)
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestReleaseThatCannotBeObserved has the reason ErrorGettingReleaseState.
func TestReleaseThatCannotBeObserved(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3)
		w.Stop()
		w.With(func() {
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if (request.Verb == "list" || request.Verb == "watch") && request.Key.Resource.Resource == "configmaps" {
					return forbidden("configmaps", "", `User "operator" cannot list resource "configmaps"`)
				}
				return nil
			}
		})
		w.start(caches(t))
		w.Wait(time.Minute)
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ErrorGettingReleaseState", "Deployed True InstallSuccessful")
		expect.Contains(w.t, "message", w.message("default/a", "Irreconcilable"), `cannot list resource "configmaps"`)
		w.With(func() { w.Refuse = nil })
		w.Wait(10 * time.Minute)
		w.has("conditions", w.conditions("default/a"), "Irreconcilable False Reconciled", "Ready True Healthy")
	})
}

// TestSpecOfWrongType: a spec that is a text or a list is no values.
func TestSpecOfWrongType(t *testing.T) {
	for name, spec := range map[string]any{"text": "size: 3", "list": []any{"size"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = spec })
				w.has("conditions", w.conditions("default/a"), "Irreconcilable True ErrorGettingValues", "Stalled True ValuesInvalid")
				expect.Contains(w.t, "message", w.message("default/a", "Irreconcilable"), "spec: must be an object")
				expect.Equal(w.t, "records", []string{}, w.HelmRecords())
			})
		})
	}
}

// TestNoSpec: a custom resource without a spec has the chart's defaults.
func TestNoSpec(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.change("default/a", func(*unstructured.Unstructured) {})
		w.has("conditions", w.conditions("default/a"), "Deployed True InstallSuccessful")
	})
}

// TestValuesTemplate: values of a template, and a template that fails. A text of the custom
// resource cannot set another value.
func TestValuesTemplate(t *testing.T) {
	template, err := file.ParseValuesTemplate("size: {{ mul .spec.count 2 }}\nimage: {{ .spec.image | default .metadata.name }}\n")
	if err != nil {
		t.Fatal(err)
	}
	kind := caches(t)
	kind.Translator = func(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
		values, err := template.Execute(object)
		return values, controller.Terminal(err)
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", map[string]any{"count": int64(3)})
		expect.Equal(w.t, "data", "map[image:a size:6]", w.field("ConfigMap", "default/a", "data"))
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"count": int64(4), "image": "b\nsize: 99"}
		})
		expect.Equal(w.t, "size", "8", w.field("ConfigMap", "default/a", "data", "size"))
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = size3 })
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ErrorGettingValues", "Stalled True ValuesInvalid", "Deployed True UpgradeSuccessful")
		expect.Equal(w.t, "message", "values of Memcached default/a: line 1: <mul .spec.count 2>: error calling mul: takes whole numbers", w.message("default/a", "Irreconcilable"))
		expect.Equal(w.t, "size", "8", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestBadCharts: a chart that cannot be installed ends in a condition that says so, without
// harm to another release of the kind.
func TestBadCharts(t *testing.T) {
	tests := map[string]struct{ template, reason, message string }{
		"fails":      {`{{ fail "no size" }}`, "RenderFailed", "no size"},
		"is no YAML": {"a: b: c\n", "RenderFailed", "mapping values are not allowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0",
				"configmap.yaml", configMap, "bad.yaml", "{{ if .Values.bad }}"+tc.template+"{{ end }}")}
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", map[string]any{"size": int64(3), "bad": true})
				w.create("default/b", size3)

				w.has("conditions", w.conditions("default/a"), "Ready False "+tc.reason, "ReleaseFailed True InstallError", "Irreconcilable True ReconcileError")
				message := w.message("default/a", "ReleaseFailed")
				expect.Contains(w.t, "message", message, tc.message)
				if strings.Contains(message, "\n") {
					t.Errorf("message has several lines: %q", message)
				}
				w.has("conditions of the other", w.conditions("default/b"), "Ready True Healthy")
				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "objects", []string{"ConfigMap default/b", "Memcached default/b"}, w.Names())
			})
		})
	}
}

// TestHangingHook: a hook that does not end fails the install at its timeout. Other releases
// do not wait for it.
func TestHangingHook(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "job.yaml",
		"{{ if .Values.hang }}\napiVersion: batch/v1\nkind: Job\nmetadata: {name: hang, annotations: {helm.sh/hook: pre-install}}\n{{ end }}")}
	kind.Policy.Timeout = &metav1.Duration{Duration: time.Minute}
	kind.MaxConcurrentReconciles = 1
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", map[string]any{"size": int64(3), "hang": true})
		w.create("default/b", size3)
		w.has("conditions of the other", w.conditions("default/b"), "Ready True Healthy")
		w.Wait(2 * time.Minute)
		w.has("conditions", w.conditions("default/a"), "ReleaseFailed True InstallError", "Ready False InstallFailed")
		expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "Job")
	})
}
