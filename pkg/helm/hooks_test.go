// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		if err := f.engine.Uninstall(t.Context(), desired, f.baseline); err != nil {
			t.Fatal(err)
		}
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

// TestHookNeverEnds: the operation's deadline ends a hook that does not.
func TestHookNeverEnds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/slow.yaml": hook("slow", "pre-install", 0)})
		started := time.Now()
		_, err := f.reconcile(desired)
		if err == nil || IsTerminal(err) {
			t.Errorf("error is %v, want one that is not terminal", err)
		}
		if took := time.Since(started); took < DefaultTimeout || took > DefaultTimeout+recordGrace {
			t.Errorf("gave up after %s, want %s", took, DefaultTimeout)
		}
		wantRecords(t, f, "web.v1 failed")
	})
}

// TestHookVanishes: a hook that is removed before its end was seen counts as
// done.
func TestHookVanishes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/short.yaml": hook("short", "pre-install", 0)})
		done := make(chan error, 1)
		go func() {
			_, err := f.reconcile(desired)
			done <- err
		}()
		<-time.After(time.Second) // It waits for the Job.
		f.Remove("Job", "default/short")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantRecords(t, f, "web.v1 deployed")
	})
}

// TestBeforeHookCreation: the old hook is gone before the new one is made, even
// when its deletion takes time.
func TestBeforeHookCreation(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		old := f.Edit("Job", "default/pre", "kubectl", func(object *unstructured.Unstructured) {
			object.SetFinalizers([]string{"batch.kubernetes.io/job-tracking"})
			object.SetAnnotations(map[string]string{hookAnnotation: "pre-install"})
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
