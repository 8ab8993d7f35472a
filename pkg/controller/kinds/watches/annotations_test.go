// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// hookOf is a template of a ConfigMap that exists once the hook has run.
func hookOf(event string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + event + ", annotations: {helm.sh/hook: " + event + ", helm.sh/resource-policy: keep}}\n"
}

// hooked is a kind whose chart has a hook for each action.
func hooked(t *testing.T) watches.ReleaseKind {
	t.Helper()
	return watches.ReleaseKind{GroupVersionKind: memcached, Chart: chartOf(t, "1.0.0",
		"configmap.yaml", configMap, "a.yaml", hookOf("pre-install"), "b.yaml", hookOf("pre-upgrade"), "c.yaml", hookOf("pre-delete"))}
}

// TestDisabledHooks also covers the values that count as true.
func TestDisabledHooks(t *testing.T) {
	tests := map[string]struct {
		annotations []string
		ran         []string
	}{
		"none":                             {nil, []string{"pre-delete", "pre-install", "pre-upgrade"}},
		"install-disable-hooks":            {[]string{"install-disable-hooks", "true"}, []string{"pre-delete", "pre-upgrade"}},
		"upgrade-disable-hooks":            {[]string{"upgrade-disable-hooks", "1"}, []string{"pre-delete", "pre-install"}},
		"uninstall-disable-hooks":          {[]string{"uninstall-disable-hooks", "T"}, []string{"pre-install", "pre-upgrade"}},
		"false":                            {[]string{"install-disable-hooks", "false"}, []string{"pre-delete", "pre-install", "pre-upgrade"}},
		"a value that is no boolean":       {[]string{"install-disable-hooks", "yes"}, []string{"pre-delete", "pre-install", "pre-upgrade"}},
		"an empty value counts as a false": {[]string{"install-disable-hooks", ""}, []string{"pre-delete", "pre-install", "pre-upgrade"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{hooked(t)}, func(w *world) {
				w.create("default/a", size3, prefixed(tc.annotations)...)
				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
				w.Delete("Memcached", "default/a")
				w.Settle()

				want := []string{}
				for _, hook := range tc.ran {
					want = append(want, "ConfigMap default/"+hook)
				}
				expect.Equal(w.t, "hooks that ran", want, w.Names())
			})
		})
	}
}

// prefixed returns annotations whose names have the prefix of upstream.
func prefixed(annotations []string) []string {
	var all []string
	for i := 0; i+1 < len(annotations); i += 2 {
		all = append(all, prefix+annotations[i], annotations[i+1])
	}
	return all
}

// TestDescriptions: the descriptions are in the release records.
func TestDescriptions(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3, prefix+"install-description", "asked for by Ada", prefix+"upgrade-description", "grown by Bob",
			prefix+"uninstall-description", "no longer needed")
		expect.Equal(w.t, "description of the install", "asked for by Ada", w.description("sh.helm.release.v1.a.v1"))
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		expect.Equal(w.t, "description of the upgrade", "grown by Bob", w.description("sh.helm.release.v1.a.v2"))

		// A successful uninstall removes the record.
		w.With(func() { w.Fault = failDeletions })
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "description of the uninstall", "no longer needed", w.description("sh.helm.release.v1.a.v2"))
	})
}

// failDeletions makes the deletion of ConfigMaps fail.
func failDeletions(request fakeapi.Request) fakeapi.Fault {
	if request.Verb == "delete" && request.Key.Resource.Resource == "configmaps" {
		return fakeapi.FailBefore
	}
	return fakeapi.NoFault
}

// TestUpgradeForce: an object whose change is refused is replaced only with the annotation.
func TestUpgradeForce(t *testing.T) {
	for value, replaced := range map[string]bool{"true": true, "false": false} {
		t.Run(value, func(t *testing.T) {
			bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
				w.create("default/a", size3, prefix+"upgrade-force", value)
				before := w.Object("ConfigMap", "default/a").GetUID()
				w.With(func() {
					w.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
						if request.Verb != "apply" || object.GetKind() != "ConfigMap" || object.GetUID() == "" {
							return nil
						}
						if size, _, _ := unstructured.NestedString(object.Object, "data", "size"); size != "5" {
							return nil // The rollback changes nothing.
						}
						return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), "a", field.ErrorList{
							field.Invalid(field.NewPath("data"), "5", "field is immutable"),
						})
					}
				})
				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })

				expect.Equal(w.t, "replaced", replaced, w.Object("ConfigMap", "default/a").GetUID() != before)
				if replaced {
					expect.Equal(w.t, "data", "5", w.field("ConfigMap", "default/a", "data", "size"))
					w.has("conditions", w.conditions("default/a"), "Deployed True UpgradeSuccessful", "Ready True Healthy")
					return
				}
				w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError", "Irreconcilable True ReconcileError")
				expect.Contains(w.t, "message", w.message("default/a", "ReleaseFailed"), "field is immutable")
			})
		})
	}
}

// TestRollbackForce: a rollback replaces an object whose change is refused, unless the annotation
// is false.
func TestRollbackForce(t *testing.T) {
	for value, replaced := range map[string]bool{"": true, "true": true, "no boolean": true, "false": false} {
		t.Run(value, func(t *testing.T) {
			kind := caches(t)
			kind.Chart = chartOf(t, "1.0.0", "a.yaml", configMap, "b.yaml", strings.Replace(configMap, "{{ .Release.Name }}", "b", 1))
			kind.Policy.Remediation = &releasev1alpha1.Remediation{Retries: new(int32), Strategy: releasev1alpha1.RemediationRollback}
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", size3, prefix+"rollback-force", value)
				before := w.Object("ConfigMap", "default/a").GetUID()
				w.With(func() {
					w.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
						if request.Verb != "apply" || object.GetKind() != "ConfigMap" || object.GetUID() == "" {
							return nil
						}
						size, _, _ := unstructured.NestedString(object.Object, "data", "size")
						if (object.GetName() != "b" || size != "5") && (object.GetName() != "a" || size != "3") {
							return nil
						}
						return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), field.ErrorList{
							field.Invalid(field.NewPath("data"), size, "field is immutable"),
						})
					}
				})

				w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })

				expect.Equal(w.t, "replaced", replaced, w.Object("ConfigMap", "default/a").GetUID() != before)
				expect.Equal(w.t, "data", map[bool]string{true: "3", false: "5"}[replaced], w.field("ConfigMap", "default/a", "data", "size"))
				w.has("conditions", w.conditions("default/a"), "ReleaseFailed True UpgradeError")
			})
		})
	}
}

// TestInvalidBooleanIsReported: an annotation that is no boolean has its default, and an event says
// so.
func TestInvalidBooleanIsReported(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3, prefix+"rollback-force", "no", prefix+"upgrade-force", "false")

		expect.Equal(w.t, "warnings", []string{"a Warning InvalidAnnotation Reconcile Annotation " + prefix + `rollback-force is ignored: "no" is neither true nor false`},
			slices.DeleteFunc(w.Recorder.Take(), func(event string) bool { return !strings.HasPrefix(event, "a Warning ") }))
	})
}

// TestUninstallWait: the deletion waits for an object that a foreign finalizer holds, and
// other releases do not.
func TestUninstallWait(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		hold := func(name string) {
			w.Edit("ConfigMap", name, "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/hold"}) })
		}
		w.create("default/a", size3, prefix+"uninstall-wait", "true")
		w.create("default/b", size3)
		hold("default/a")
		hold("default/b")
		w.Settle()

		w.Delete("Memcached", "default/a")
		w.Delete("Memcached", "default/b")
		w.Settle()
		expect.Equal(w.t, "objects", []string{"ConfigMap default/a", "ConfigMap default/b", "Memcached default/a"}, w.Names())
		w.has("conditions", w.conditions("default/a"), "Ready False UninstallWaits", "Reconciling True UninstallWaits", "Deployed False UninstallSuccessful")
		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "Deletion waits until these objects are gone: ConfigMap default/a")

		// Nothing is sent while the deletion waits, and no worker is held.
		w.TakeRequests()
		w.Wait(time.Minute)
		expect.Equal(w.t, "requests while the deletion waits", []string{}, w.TakeRequests())
		w.create("default/c", size3)
		expect.Equal(w.t, "data of another release", "3", w.field("ConfigMap", "default/c", "data", "size"))

		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		w.Settle()
		expect.Equal(w.t, "objects after the removal", []string{"ConfigMap default/b", "ConfigMap default/c", "Memcached default/c"}, w.Names())
	})
}

// TestUninstallWaitGivenUp: a deletion that waits ends when the annotation is removed.
func TestUninstallWaitGivenUp(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", size3, prefix+"uninstall-wait", "true")
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/hold"}) })
		w.Delete("Memcached", "default/a")
		w.Settle()
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, prefix+"uninstall-wait", "false") })
		expect.Equal(w.t, "objects", []string{"ConfigMap default/a"}, w.Names())
	})
}

// TestRequests: requested-at starts a full pass, and with force-at an upgrade, once per value.
func TestRequests(t *testing.T) {
	kind := caches(t)
	kind.IgnoreDependents = true
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		const requested, forced = "demo.example.com/requested-at", "demo.example.com/force-at"
		w.create("default/a", size3)
		w.Edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "7"} })
		w.Settle()
		expect.Equal(w.t, "data after drift", "7", w.field("ConfigMap", "default/a", "data", "size"))

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, requested, "1") })
		expect.Equal(w.t, "data after the request", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "answer", "1", w.field("Memcached", "default/a", "status", "lastHandledRequestedAt"))
		expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())

		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, requested, "2", forced, "2") })
		expect.Equal(w.t, "records after force-at", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		expect.Equal(w.t, "answer to force-at", "2", w.field("Memcached", "default/a", "status", "lastHandledForceAt"))
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, requested, "3") })
		expect.Equal(w.t, "records after another request", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())

		w.Recorder.Take()
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, requested, strings.Repeat("x", 300)) })
		w.has("events", w.Recorder.Take(), "a Warning RequestIgnored Reconcile Annotation "+requested+" is ignored: its value has 300 characters; it may have 256")
	})
}

// TestPauseAnnotation: the program names the annotation that pauses.
func TestPauseAnnotation(t *testing.T) {
	kind := caches(t)
	kind.PauseAnnotation = "example.com/frozen"
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.create("default/a", size3)
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(5)}
			annotate(object, "example.com/frozen", "true")
		})
		expect.Equal(w.t, "data while paused", "3", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "message", "Annotation example.com/frozen is true", w.message("default/a", "Paused"))
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "example.com/frozen", "no") })
		expect.Equal(w.t, "data", "5", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "message", "", w.message("default/a", "Paused"))

		// The annotation of all kinds suspends, and does not hold a deletion.
		w.change("default/a", func(object *unstructured.Unstructured) {
			object.Object["spec"] = map[string]any{"size": int64(7)}
			annotate(object, "demo.example.com/paused", "true")
			annotate(object, "demo.example.com/paused-reason", "audit")
		})
		expect.Equal(w.t, "data while suspended", "5", w.field("ConfigMap", "default/a", "data", "size"))
		expect.Equal(w.t, "message while suspended", "Nothing is installed, upgraded or repaired while annotation demo.example.com/paused is true: audit",
			w.message("default/a", "Suspended"))
		w.has("conditions", w.conditions("default/a"), "Suspended True SuspendedByAnnotation", "Ready False SuspendedByAnnotation")
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "objects", []string{}, w.Names())
	})
}
