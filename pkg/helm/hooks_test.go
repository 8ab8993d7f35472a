// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// hook is a template of a Job that runs as a hook.
func hook(name, event string, weight int, policies ...string) string {
	annotations := fmt.Sprintf("helm.sh/hook: %q, helm.sh/hook-weight: %q", event, fmt.Sprint(weight))
	if len(policies) > 0 {
		annotations += ", helm.sh/hook-delete-policy: \"" + strings.Join(policies, ",") + "\""
	}
	return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\n"
}

// jobsEnd is the controller of Jobs: each ends as soon as it is made, in failure
// when its name says so.
func jobsEnd(object *unstructured.Unstructured) bool {
	if object.GetKind() != "Job" || object.Object["status"] != nil {
		return false
	}
	ended := "Complete"
	if strings.Contains(object.GetName(), "bad") {
		ended = "Failed"
	}
	object.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": ended, "status": "True", "reason": "Tested", "message": "by a test"},
	}}
	return true
}

// steps are the requests about objects, without release records and reads.
func (f *fixture) steps() []string {
	return slices.DeleteFunc(f.TakeRequests(), func(request string) bool {
		return strings.Contains(request, " secrets default") || strings.HasPrefix(request, "list ") || strings.HasPrefix(request, "get ")
	})
}

func wantSteps(t *testing.T, f *fixture, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.steps()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestHooks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		templates := map[string]string{
			"templates/a.yaml":      configMap("a", "{{ .Values.v }}"),
			"templates/pre-b.yaml":  hook("pre-b", "pre-install", 1, "hook-succeeded"),
			"templates/pre-a.yaml":  hook("pre-a", "pre-install,pre-upgrade", -5),
			"templates/post.yaml":   hook("post", "post-install,post-upgrade", 0, "before-hook-creation", "hook-succeeded"),
			"templates/pre-d.yaml":  hook("pre-d", "pre-delete", 0, "hook-succeeded"),
			"templates/post-d.yaml": hook("post-d", "post-delete", 0, "hook-failed"),
			"templates/test.yaml":   hook("test", "test", 0),
		}
		desired := made(t, templates)
		desired.Values = map[string]any{"v": "1"}
		f.must(desired, ActionInstall, CauseNotInstalled)
		wantSteps(t, f, "install",
			"apply jobs default/pre-a", "apply jobs default/pre-b", "delete jobs default/pre-b",
			"apply configmaps default/a",
			"apply jobs default/post", "delete jobs default/post",
		)
		f.must(desired, ActionNone, CauseNone)
		if got := len(f.baseline.Inventory); got != 1 {
			t.Errorf("the inventory has %d entries, want 1: hooks are no part of it", got)
		}

		desired.Values = map[string]any{"v": "2"}
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		wantSteps(t, f, "upgrade",
			"delete jobs default/pre-a", "apply jobs default/pre-a",
			"apply configmaps default/a",
			"apply jobs default/post", "delete jobs default/post",
		)
		f.uninstall(desired)
		wantSteps(t, f, "uninstall",
			"apply jobs default/pre-d", "delete jobs default/pre-d", "delete configmaps default/a", "apply jobs default/post-d",
		)
		wantRecords(t, f)
		if diff := cmp.Diff([]string{"Job default/post-d", "Job default/pre-a"}, f.Names()); diff != "" {
			t.Errorf("hooks that their policies leave (-want +got):\n%s", diff)
		}
	})
}

// TestHookFails: a failed hook fails the attempt, which is tried again in the
// same place.
func TestHookFails(t *testing.T) {
	for _, event := range []string{"pre-install", "post-install"} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() { f.React = jobsEnd })
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/bad.yaml": hook("bad", event, 0)})
				for range 2 {
					_, err := f.reconcile(desired)
					if err == nil || !strings.Contains(err.Error(), "Tested: by a test") || IsTerminal(err) {
						t.Errorf("error is %v, want the Job's, not terminal", err)
					}
					wantRecords(t, f, "web.v1 failed")
				}
				good := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				if _, err := f.reconcile(good); err != nil {
					t.Fatal(err)
				}
				f.must(good, ActionNone, CauseNone)
			})
		})
	}
}

// TestHookThatHangs: the error names the hook that hangs, its event and the time. The policies
// of all hooks are carried out after the operation's deadline, and the record says which hook
// failed.
func TestHookThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() {
			f.React = func(object *unstructured.Unstructured) bool { return object.GetName() != "never" && jobsEnd(object) }
		})
		chart := func(data string) Release {
			return made(t, map[string]string{
				"templates/a.yaml":     configMap("a", data),
				"templates/done.yaml":  hook("done", "pre-upgrade,post-rollback", -1, "hook-succeeded"),
				"templates/kept.yaml":  hook("kept", "pre-upgrade", -1, "hook-failed"),
				"templates/never.yaml": hook("never", "post-install,pre-upgrade", 0, "hook-failed"),
			})
		}
		desired := chart("1")
		desired.Install.DisableHooks = true
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.TakeRequests()
		started := time.Now()

		_, err := f.reconcile(chart("2"))

		want := "pre-upgrade hooks failed: pre-upgrade hook Job default/never: not ready after 5m0s"
		if err == nil || !strings.HasPrefix(err.Error(), want) || IsTerminal(err) {
			t.Errorf("error is %v, want one that begins with %q", err, want)
		}
		if took := time.Since(started); took != DefaultTimeout {
			t.Errorf("gave up after %s, want %s", took, DefaultTimeout)
		}
		wantSteps(t, f, "upgrade", "apply jobs default/done", "apply jobs default/kept", "apply jobs default/never",
			"delete jobs default/never", "delete jobs default/done")
		wantRecords(t, f, "web.v1 deployed", "web.v2 failed")
		record := f.record(desired)
		if !strings.Contains(record.Info.Description, want) {
			t.Errorf("the record says %q, want %q", record.Info.Description, want)
		}
		phases := map[string]releasev1.HookPhase{}
		for _, hook := range record.Hooks {
			phases[hook.Name] = hook.LastRun.Phase
		}
		wantPhases := map[string]releasev1.HookPhase{
			"done": releasev1.HookPhaseSucceeded, "kept": releasev1.HookPhaseSucceeded, "never": releasev1.HookPhaseFailed,
		}
		if diff := cmp.Diff(wantPhases, phases); diff != "" {
			t.Errorf("hooks in the record (-want +got):\n%s", diff)
		}
	})
}

// TestHookWithoutPods: the error says why no pod of the hook exists.
func TestHookWithoutPods(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
		f.With(func() {
			f.React = func(object *unstructured.Unstructured) bool {
				started := object.GetKind() == "Job" && object.Object["status"] == nil
				if started {
					object.Object["spec"] = map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"job-name": object.GetName()}}}
					object.Object["status"] = map[string]any{"startTime": "2026-01-02T03:04:05Z"}
				}
				return started
			}
		})
		f.Edit("Event", "default/refused.1", "job-controller", func(object *unstructured.Unstructured) {
			object.Object["involvedObject"] = map[string]any{"kind": "Job", "name": "refused"}
			object.Object["reason"], object.Object["message"] = "FailedCreate", `Error creating: pods "refused-a" is forbidden: exceeded quota: small`
		})

		_, err := f.reconcile(made(t, map[string]string{"templates/hook.yaml": hook("refused", "pre-install", 0)}))

		want := "pre-install hook Job default/refused: not ready after 5m0s: No pod exists: pods is forbidden: exceeded quota: small; raise the ResourceQuota small"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one that says %q", err, want)
		}
	})
}

// TestHookThatHangsAndStays: if the cleanup after a hook fails, the error is still the hook's,
// and the other hooks are cleaned up.
func TestHookThatHangsAndStays(t *testing.T) {
	for _, event := range []string{"pre-install", "pre-delete"} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() {
					f.React = func(object *unstructured.Unstructured) bool { return object.GetName() != "never" && jobsEnd(object) }
					f.Fault = func(request fakeapi.Request) fakeapi.Fault {
						if request.Verb == "delete" && request.Key.Name == "first" {
							return fakeapi.FailBefore
						}
						return fakeapi.NoFault
					}
				})
				desired := made(t, map[string]string{
					"templates/a.yaml": configMap("a", "1"), "templates/first.yaml": hook("first", event, -2, "hook-succeeded"),
					"templates/second.yaml": hook("second", event, -1, "hook-succeeded"), "templates/never.yaml": hook("never", event, 0),
				})

				_, err := f.reconcile(desired)
				if event == "pre-delete" && err == nil {
					err = f.tryUninstall(desired)
				}

				if want := event + " hook Job default/never: not ready after 5m0s"; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one that says %q", err, want)
				}
				if f.Object("Job", "default/first") == nil || f.Object("Job", "default/second") != nil || f.Object("Job", "default/never") == nil {
					t.Errorf("objects are %v", f.Names())
				}
			})
		})
	}
}

// TestBeforeHookCreation: the old hook is gone before the new one is made, even
// when its deletion takes time.
func TestBeforeHookCreation(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		old := f.Edit("Job", "default/pre", "kubectl", func(object *unstructured.Unstructured) {
			object.SetFinalizers([]string{"batch.kubernetes.io/job-tracking"})
			object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
		})
		f.With(func() { f.React = jobsEnd })
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0)})
		done := make(chan error, 1)
		go func() {
			_, err := f.reconcile(desired)
			done <- err
		}()
		<-time.After(time.Second) // It waits for the deletion.
		wantSteps(t, f, "before the old hook is gone", "delete jobs default/pre")
		f.Edit("Job", "default/pre", "kube-controller-manager", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if now := f.Object("Job", "default/pre"); now == nil || now.GetUID() == old.GetUID() {
			t.Errorf("the hook is %v, want a new one", now)
		}
	})
}

// namesake is a template of a hook that has the name of a ConfigMap.
func namesake(events, policies string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: \"" + events + "\"" + policies + "}}\ndata: {key: hook}\n"
}

// TestHookOfTheNameOfAnObject: as with Helm, a hook that runs before the objects are applied
// becomes the object, and replaces it in the next upgrade.
func TestHookOfTheNameOfAnObject(t *testing.T) {
	const (
		applyA  = "apply configmaps default/a"
		deleteA = "delete configmaps default/a"
	)
	tests := map[string]struct {
		policies         string
		install, upgrade []string
	}{
		"before-hook-creation": {"", []string{applyA}, []string{deleteA, applyA}},
		"hook-succeeded": {
			", helm.sh/hook-delete-policy: hook-succeeded", []string{applyA, deleteA, applyA}, []string{applyA, deleteA, applyA},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				chart := func(data string) Release {
					return made(t, map[string]string{
						"templates/a.yaml": configMap("a", data), "templates/hook.yaml": namesake("pre-install,pre-upgrade", test.policies),
					})
				}
				// The number of applies of a step depends on the events of watches.
				wantSteps := func(what string, want []string) {
					t.Helper()
					if diff := cmp.Diff(want, slices.Compact(f.steps())); diff != "" {
						t.Errorf("%s (-want +got):\n%s", what, diff)
					}
				}
				f.must(chart("1"), ActionInstall, CauseNotInstalled)
				wantSteps("install", test.install)
				f.must(chart("1"), ActionNone, CauseNone)
				synctest.Wait()
				f.must(chart("1"), ActionNone, CauseNone)

				f.must(chart("2"), ActionUpgrade, CauseInputsChanged)
				wantSteps("upgrade", test.upgrade)
				synctest.Wait()
				f.must(chart("2"), ActionNone, CauseNone)

				got := f.Object("ConfigMap", "default/a")
				if value, _, _ := unstructured.NestedString(got.Object, "data", "key"); value != "2" || got.GetAnnotations()[manifest.HookAnnotation] != "" {
					t.Errorf("the object is %v", got.Object)
				}
				f.uninstall(chart("2"))
				if got := f.Names(); len(got) > 0 {
					t.Errorf("objects %v are left", got)
				}
			})
		})
	}
}

// TestHookOfTheNameOfAnObjectIsLeft: a hook that a failed attempt left is replaced, and then
// becomes the object.
func TestHookOfTheNameOfAnObjectIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		failing := made(t, map[string]string{
			"templates/a.yaml": configMap("a", "bad"), "templates/hook.yaml": namesake("pre-install", ""),
		})
		_, err := f.reconcile(failing)
		_ = wantError[*RefusedError](t, err)
		f.restart()

		if _, err := f.reconcile(made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/hook.yaml": namesake("pre-install", ""),
		})); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHookThatReplacesAnObject: a hook that would replace an object after it was applied is
// refused. With Helm, the object would be missing from then on.
func TestHookThatReplacesAnObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		_, err := f.reconcile(made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/hook.yaml": namesake("pre-install,post-upgrade", ""),
		}))

		want := "hook test/templates/hook.yaml: ConfigMap default/a would replace the object of this name from test/templates/a.yaml " +
			"after it was applied: rename one of them"
		if got := wantError[*RenderError](t, err); got.Err.Error() != want {
			t.Errorf("error is %q, want %q", got.Err, want)
		}
		wantRequests(t, f)
	})
}
