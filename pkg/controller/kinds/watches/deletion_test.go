// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// TestDeletionWithoutReleaseName: a custom resource whose release was never named has no
// release to uninstall.
func TestDeletionWithoutReleaseName(t *testing.T) {
	kind := caches(t)
	kind.ReleaseName = func(*unstructured.Unstructured) (string, error) { return "", errors.New("releaseName: too long") }
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestDeletionInVanishingNamespace: the service account has lost its rights with the
// namespace. The custom resource does not hold the deletion of the namespace.
func TestDeletionInVanishingNamespace(t *testing.T) {
	kind := caches(t)
	kind.ServiceAccountName = "tenant"
	for _, vanishing := range []bool{true, false} {
		bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
			namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
			w.Serve(namespaces, "Namespace", false)
			w.Edit("Namespace", "default", "kubectl", func(object *unstructured.Unstructured) {
				object.SetFinalizers([]string{"kubernetes"})
			})
			w.create("default/a", size3)
			w.With(func() {
				w.Fault = func(request fakeapi.Request) fakeapi.Fault {
					if request.User != "" {
						return fakeapi.AnswerForbidden
					}
					return fakeapi.NoFault
				}
			})
			if vanishing {
				w.Delete("Namespace", "default")
				w.Remove("ConfigMap", "default/a")
			}
			w.Delete("Memcached", "default/a")
			w.Settle()
			expect.Equal(w.t, "the custom resource is gone", vanishing, w.Object("Memcached", "default/a") == nil)
		})
	}
}

// TestDeletionInUnknownNamespace: an operator that may not look at the namespace says so.
func TestDeletionInUnknownNamespace(t *testing.T) {
	kind := caches(t)
	kind.ServiceAccountName = "tenant"
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.With(func() {
			w.Fault = func(request fakeapi.Request) fakeapi.Fault {
				if request.User != "" || request.Key.Resource.Resource == "namespaces" {
					return fakeapi.AnswerForbidden
				}
				return fakeapi.NoFault
			}
		})
		w.Delete("Memcached", "default/a")
		w.Settle()
		if got, want := w.message("default/a", apimeta.ConditionReconciling), "look whether the namespace is being deleted: "; !strings.Contains(got, want) {
			t.Errorf("message is %q, want it to contain %q", got, want)
		}
	})
}

// TestUninstallWaitWithoutDependents: the wait for objects of a release ends although their
// changes start no pass.
func TestUninstallWaitWithoutDependents(t *testing.T) {
	kind := caches(t)
	kind.IgnoreDependents = true
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3, prefix+"uninstall-wait", "true")
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"other/finalizer"}) })
		w.Delete("Memcached", "default/a")
		w.Settle()
		w.has("conditions", w.conditions("default/a"), "Ready False UninstallWaits", "Irreconcilable False Reconciled")
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		w.Wait(time.Minute)
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}

// TestHookOfUninstallIsReported: a custom resource whose uninstall waits for a hook is not Ready.
// An uninstall that does not wait costs no write of the status.
func TestHookOfUninstallIsReported(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "job.yaml",
		"{{ if .Values.hang }}\napiVersion: batch/v1\nkind: Job\nmetadata: {name: hang, annotations: {helm.sh/hook: pre-delete}}\n{{ end }}")}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/b", size3)
		w.TakeRequests()
		w.Delete("Memcached", "default/b")
		w.Settle()
		for _, request := range w.TakeRequests() {
			if strings.Contains(request, "/status") {
				t.Errorf("a deletion that does not wait wrote a status: %s", request)
			}
		}

		w.create("default/a", map[string]any{"size": int64(3), "hang": true})
		w.Delete("Memcached", "default/a")
		w.Settle()
		w.has("conditions", w.conditions("default/a"), "Ready False Deleting", "Reconciling True Deleting", "Deployed True InstallSuccessful", "Irreconcilable False Reconciled")
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "The uninstall of release a waits for Job default/hang")

		w.Edit("Job", "default/hang", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["status"] = map[string]any{"succeeded": int64(1), "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
		})
		w.Settle()
		expect.Equal(w.t, "the custom resource is gone", true, w.Object("Memcached", "default/a") == nil)
	})
}

// TestRetryOfUninstallKeepsFailure: while a retry waits for the hook, the status says why the
// attempt before failed.
func TestRetryOfUninstallKeepsFailure(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "job.yaml",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: fails, annotations: {helm.sh/hook: pre-delete}}")}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		fail := func() {
			w.Edit("Job", "default/fails", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["status"] = map[string]any{"failed": int64(1), "conditions": []any{map[string]any{"type": "Failed", "status": "True"}}}
			})
			w.Settle()
		}
		w.create("default/a", size3)
		w.Delete("Memcached", "default/a")
		w.Settle()
		fail()
		w.has("conditions", w.conditions("default/a"), "Ready False UninstallFailed")
		w.TakeRequests()
		w.Recorder.Take()

		w.Wait(time.Minute)
		w.has("conditions of the retry", w.conditions("default/a"), "Ready False UninstallFailed")
		fail()

		expect.Equal(w.t, "events of the retry", 0, len(w.Recorder.Take()))
		for _, request := range w.TakeRequests() {
			if strings.Contains(request, "/status") {
				t.Errorf("the retry wrote the status: %s", request)
			}
		}
	})
}

// TestHooksAreDisabledDuringUninstall: a pre-delete hook that always fails does not keep a custom resource
// for ever, because annotations can be changed during a deletion. The change follows the hook that runs.
func TestHooksAreDisabledDuringUninstall(t *testing.T) {
	kind := watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0", "configmap.yaml", configMap, "job.yaml",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: fails, annotations: {helm.sh/hook: pre-delete}}")}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		fail := func() {
			w.Edit("Job", "default/fails", "kubectl", func(object *unstructured.Unstructured) {
				object.Object["status"] = map[string]any{"failed": int64(1), "conditions": []any{map[string]any{"type": "Failed", "status": "True"}}}
			})
			w.Settle()
		}
		w.create("default/a", size3)
		w.Delete("Memcached", "default/a")
		w.Settle()
		fail()
		w.has("conditions", w.conditions("default/a"), "Ready False UninstallFailed")

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, prefix+"uninstall-disable-hooks", "true") })
		fail()
		w.Wait(time.Minute)

		expect.Equal(w.t, "the custom resource is gone", true, w.Object("Memcached", "default/a") == nil)
		expect.Equal(w.t, "objects", []string{"Job default/fails"}, w.Names())
	})
}

// TestTranslatorIsRetried: an error that only time resolves does not stall.
func TestTranslatorIsRetried(t *testing.T) {
	kind := caches(t)
	var offline atomic.Bool
	offline.Store(true)
	kind.Translator = func(context.Context, *unstructured.Unstructured) (map[string]any, error) {
		if offline.Load() {
			return nil, errors.New("connection refused")
		}
		return map[string]any{"size": 7}, nil
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		w.has("conditions", w.conditions("default/a"), "Irreconcilable True ErrorGettingValues", "Reconciling True ValuesInvalid")
		offline.Store(false)
		w.Wait(time.Minute)
		expect.Equal(w.t, "data", "7", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestLabelsStartAPass: values may depend on labels.
func TestLabelsStartAPass(t *testing.T) {
	kind := caches(t)
	kind.Translator = func(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
		return map[string]any{"size": object.GetLabels()["size"]}, nil
	}
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.change("default/a", func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"size": "1"}) })
		w.change("default/a", func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"size": "2"}) })
		expect.Equal(w.t, "data", "2", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestForbiddenKindWaits: a kind that may not be watched is reported as waiting.
func TestForbiddenKindWaits(t *testing.T) {
	bubble(t, nil, func(w *world) {
		allowed := false
		w.With(func() {
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if !allowed && (request.Verb == "list" || request.Verb == "watch") && request.Key.Resource == memcacheds {
					return apierrors.NewForbidden(memcacheds.GroupResource(), "", errors.New("not granted"))
				}
				return nil
			}
		})
		expect.NoError(w.t, w.manager.Update(caches(t)))
		w.Settle()
		expect.Equal(w.t, "waiting", true, w.waiting[caches(t).Name()])
		w.With(func() { allowed = true })
		w.Wait(5 * time.Minute)
		expect.Equal(w.t, "waiting with the permission", false, w.waiting[caches(t).Name()])
	})
}
