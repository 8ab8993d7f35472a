// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// runs is a controller of Jobs that gives each new Job a status. If a Job has the status, the test
// makes its later changes.
func (f *fixture) runs(status func(job string) map[string]any) {
	f.With(func() {
		f.React = func(object *unstructured.Unstructured) bool {
			if object.GetKind() != "Job" || object.Object["status"] != nil {
				return false
			}
			given := status(object.GetName())
			if given != nil {
				object.Object["status"] = given
			}
			return given != nil
		}
	})
}

// working is the status of a running Job, and endedWith the status of an ended Job.
func working(string) map[string]any { return map[string]any{"active": int64(1)} }

func endedWith(condition string) map[string]any {
	return map[string]any{"conditions": []any{
		map[string]any{"type": condition, "status": "True", "reason": "Tested", "message": "by a test"},
	}}
}

// TestHookVanishes: a hook that is deleted before its end fails.
func TestHookVanishes(t *testing.T) {
	tests := map[string]struct{ spec, end, want string }{
		"while it runs":                      {want: "pre-install hook Job default/short: was deleted before it ended"},
		"while it runs, with a time to live": {spec: expires, want: "pre-install hook Job default/short: was deleted before it ended"},
		"after it has completed":             {end: "Complete"},
		"after it has failed":                {spec: expires, end: "Failed", want: "pre-install hook Job default/short: job failed: Tested: by a test"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.runs(working)
				desired := made(t, map[string]string{
					"templates/a.yaml": configMap("a", "1"), "templates/short.yaml": hook("short", "pre-install", 0) + test.spec,
				})
				done := make(chan error, 1)
				go func() {
					_, err := f.reconcile(desired)
					done <- err
				}()
				<-time.After(time.Second) // It waits for the Job.
				if test.end != "" {
					f.Edit("Job", "default/short", "kube-controller-manager", func(object *unstructured.Unstructured) {
						object.Object["status"] = endedWith(test.end)
					})
				}
				f.Remove("Job", "default/short")

				err := <-done

				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("error is %v, want %q", err, test.want)
				}
			})
		})
	}
}

// expires is the spec of a Job that is deleted at its end.
const expires = "spec: {ttlSecondsAfterFinished: 0}\n"

// TestDeletedHook: a hook whose deletion was not observed may have ended unseen, if it has a time to live.
func TestDeletedHook(t *testing.T) {
	jobWith := func(fields map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fields}
	}
	plain := jobWith(map[string]any{})
	expiring := jobWith(map[string]any{"spec": map[string]any{"ttlSecondsAfterFinished": int64(0)}})
	running, complete := jobWith(map[string]any{"status": working("")}), jobWith(map[string]any{"status": endedWith("Complete")})
	tests := map[string]struct {
		desired, last *unstructured.Unstructured
		observed      bool
		want          bool
	}{
		"never seen":                             {plain, nil, false, false},
		"never seen, with a time to live":        {expiring, nil, false, true},
		"last seen running":                      {plain, running, false, false},
		"last seen running, with a time to live": {expiring, running, false, true},
		"deleted while it ran":                   {expiring, running, true, false},
		"deleted after its end":                  {plain, complete, true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := deletedHook(test.desired, jobEnded, test.last, test.observed); (err == nil) != test.want {
				t.Errorf("error is %v, want that it counts as done: %t", err, test.want)
			}
		})
	}
}

// TestEndedHookRunsAgain: without before-hook-creation, a Job of an earlier attempt may be left. It has
// ended, so it is replaced. With Helm, it blocks all further attempts.
func TestEndedHookRunsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		end := "Failed"
		f.runs(func(string) map[string]any { return endedWith(end) })
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0, "hook-succeeded")})
		if _, err := f.reconcile(desired); err == nil {
			t.Fatal("a failed hook is no error")
		}
		f.steps()
		f.With(func() { end = "Complete" })

		if _, err := f.reconcile(desired); err != nil {
			t.Error(err)
		}

		// The first apply finds the Job of the first attempt.
		wantSteps(t, f, "second attempt", "apply jobs default/pre", "delete jobs default/pre", "apply jobs default/pre",
			"delete jobs default/pre", "apply configmaps default/a")
	})
}

// TestLeavingHookIsAwaited: a Job of an earlier attempt that is still being deleted does not count as
// the hook of this attempt.
func TestLeavingHookIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runs(func(string) map[string]any { return endedWith("Complete") })
		old := f.Edit("Job", "default/pre", "kubectl", func(object *unstructured.Unstructured) {
			object.SetFinalizers([]string{"foregroundDeletion"})
			object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
			object.Object["status"] = working("")
		})
		f.Delete("Job", "default/pre")
		done := make(chan error, 1)
		go func() {
			_, err := f.reconcile(made(t, map[string]string{
				"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0, "hook-failed"),
			}))
			done <- err
		}()
		<-time.After(time.Second)
		f.Edit("Job", "default/pre", "kube-controller-manager", func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })

		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if now := f.Object("Job", "default/pre"); now == nil || now.GetUID() == old.GetUID() {
			t.Errorf("the hook is %v, want a new one", now)
		}
	})
}

// TestHookOfInterruptedAttempt: a Job that still runs after the operator was killed is not run twice at
// the same time.
func TestHookOfInterruptedAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runs(working)
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0, "hook-succeeded")})
		left := f.Edit("Job", "default/pre", "helm", func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
		})
		done := make(chan error, 1)
		go func() {
			_, err := f.reconcile(desired)
			done <- err
		}()
		<-time.After(time.Second)
		if now := f.Object("Job", "default/pre"); now == nil || now.GetUID() != left.GetUID() {
			t.Errorf("the Job is %v, want that of the interrupted attempt", now)
		}
		f.Edit("Job", "default/pre", "kube-controller-manager", func(object *unstructured.Unstructured) {
			object.Object["status"] = endedWith("Complete")
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWaitThatTimesOut: the error names the reason why a hook does not end.
func TestWaitThatTimesOut(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		old    bool
		want   string
	}{
		"an old hook with a finalizer": {
			old: true, change: func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/forever"}) },
			want: "deletion of hook Job default/pre: not deleted after 5m0s: its deletion waits for the finalizers example.com/forever",
		},
		"a suspended Job": {
			change: func(object *unstructured.Unstructured) {
				object.Object["spec"] = map[string]any{"suspend": true}
				object.Object["status"] = endedWith("Suspended")
			},
			want: "pre-install hook Job default/pre: not ready after 5m0s: spec.suspend is true: set it to false in the chart, " +
				"or look at the controller that queues Jobs",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				if test.old {
					f.Edit("Job", "default/pre", "kubectl", func(object *unstructured.Unstructured) {
						object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
						test.change(object)
					})
				}
				f.With(func() {
					f.React = func(object *unstructured.Unstructured) bool {
						first := object.GetKind() == "Job" && object.Object["status"] == nil && !test.old
						if first {
							test.change(object)
						}
						return first
					}
				})

				_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-install", 0)}))

				if err == nil || !strings.HasSuffix(err.Error(), test.want) {
					t.Errorf("error is %v, want one that ends with %q", err, test.want)
				}
			})
		})
	}
}

// TestObjectBecomesHookAndBack: an object that becomes a hook is not deleted after the hook was created,
// and the hook becomes an object again. With Helm, the former deletes the hook, and the latter fails.
func TestObjectBecomesHookAndBack(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		object := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
		hooked := made(t, map[string]string{"templates/a.yaml": namesake("pre-install,pre-upgrade", ""), "templates/b.yaml": configMap("b", "1")})
		for i, desired := range []Release{object, hooked, object, hooked} {
			if _, err := f.reconcile(desired); err != nil {
				t.Fatalf("revision %d: %v", i+1, err)
			}
			if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/b"}, f.Names()); diff != "" {
				t.Errorf("objects of revision %d (-want +got):\n%s", i+1, diff)
			}
			isHook := f.Object("ConfigMap", "default/a").GetAnnotations()[manifest.HookAnnotation] != ""
			if want := i%2 == 1; isHook != want {
				t.Errorf("revision %d: is a hook: %t, want %t", i+1, isHook, want)
			}
			f.must(desired, ActionNone, CauseNone)
			f.restart()
		}
	})
}

// TestHookOfAnotherReleaseIsNoObject: an object that is a hook, but of no revision of the release, causes a conflict.
func TestHookOfAnotherReleaseIsNoObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/b.yaml": configMap("b", "1")}), ActionInstall, CauseNotInstalled)
		f.Edit("ConfigMap", "default/a", "helm", func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{manifest.HookAnnotation: "pre-install"})
		})

		_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")}))

		_ = wantError[*OwnershipConflictError](t, err)
	})
}

// TestCustomResourceFromHook: a hook may create a kind, and a later hook an object of the kind. An
// object of the chart with this kind is refused by a sentence that says what to do.
func TestCustomResourceFromHook(t *testing.T) {
	const thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t"
	crd := strings.Replace(thingsCRD, "{name: things.example.com}",
		`{name: things.example.com, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: "-1"}}`, 1)
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() {
			f.React = func(object *unstructured.Unstructured) bool {
				changed := establish(object)
				if changed {
					f.Kinds[thingsResource] = fakeapi.Kind{Kind: thingKind, Namespaced: true}
				}
				return changed
			}
		})
		_, err := f.reconcile(made(t, map[string]string{"templates/crd.yaml": crd, "templates/t.yaml": thing + "}\n"}))
		if want := "install the kind's CRD first"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one that says %q", err, want)
		}

		if _, err := f.reconcile(made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/crd.yaml": crd, "templates/t.yaml": thing + ", annotations: {helm.sh/hook: pre-install}}\n",
		})); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(f.Names(), "Thing default/t") {
			t.Errorf("objects are %v", f.Names())
		}
	})
}

// TestPreDeleteHookFails: the uninstall fails until the hook succeeds or hooks are disabled, which also
// works while the owner is being deleted.
func TestPreDeleteHookFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runs(func(string) map[string]any { return endedWith("Failed") })
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": hook("pre", "pre-delete", 0)})
		f.must(desired, ActionInstall, CauseNotInstalled)
		for range 2 {
			err := f.tryUninstall(desired)
			if err == nil || !strings.Contains(err.Error(), "pre-delete hook Job default/pre: job failed") || f.Object("ConfigMap", "default/a") == nil {
				t.Errorf("error is %v, objects are %v", err, f.Names())
			}
		}
		wantRecords(t, f, "web.v1 uninstalling")
		desired.Uninstall.DisableHooks = true
		f.uninstall(desired)
		if got := f.Names(); !slices.Equal(got, []string{"Job default/pre"}) {
			t.Errorf("objects are %v", got)
		}
	})
}

// TestChangeBackDuringHook: a spec that changes back while a hook runs is a further revision, after the
// running one.
func TestChangeBackDuringHook(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.runs(working)
		chart := func(data string) Release {
			return made(t, map[string]string{"templates/a.yaml": configMap("a", data), "templates/pre.yaml": hook("pre", "pre-upgrade", 0, "hook-succeeded")})
		}
		complete := func() {
			<-time.After(time.Second)
			f.Edit("Job", "default/pre", "kube-controller-manager", func(object *unstructured.Unstructured) {
				object.Object["status"] = endedWith("Complete")
			})
		}
		f.must(chart("1"), ActionInstall, CauseNotInstalled)
		for _, data := range []string{"2", "1"} {
			done := make(chan error, 1)
			go func() {
				_, err := f.reconcile(chart(data))
				done <- err
			}()
			complete()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		wantRecords(t, f, "web.v1 superseded", "web.v2 superseded", "web.v3 deployed")
		value, _, _ := unstructured.NestedString(f.Object("ConfigMap", "default/a").Object, "data", "key")
		if value != "1" {
			t.Errorf("data are %q, want those of the spec", value)
		}
	})
}
