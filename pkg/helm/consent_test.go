// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// podsOf is a workload with one container and further lines of its pod spec.
func podsOf(kind, image, further string) string {
	return "apiVersion: apps/v1\nkind: " + kind + "\nmetadata: {name: app}\nspec:\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: app, image: " + image + ", resources: {}}]\n" + further
}

// TestTakeoverWaitsForConsent: a takeover that would change pods or delete objects writes nothing without
// consent, and all other takeovers need none.
func TestTakeoverWaitsForConsent(t *testing.T) {
	kept := strings.Replace(configMap("old", "1"), "metadata:\n", "metadata:\n  annotations: {helm.sh/resource-policy: keep}\n", 1)
	tests := map[string]struct {
		before, after map[string]string
		// clientSide says that the release was applied as Helm 3 does.
		clientSide bool
		edit       func(f *fixture)
		want       string
	}{
		"nothing": {
			before: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")}, after: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")},
		},
		"objects without pods, and new objects": {
			before: map[string]string{"templates/a.yaml": configMap("a", "1")},
			after:  map[string]string{"templates/a.yaml": configMap("a", "2"), "templates/app.yaml": podsOf("Deployment", "one", "")},
		},
		"an object that is kept": {before: map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/old.yaml": kept}, after: map[string]string{"templates/a.yaml": configMap("a", "1")}},
		"an object that is gone": {
			before: map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/old.yaml": configMap("old", "1")}, after: map[string]string{"templates/a.yaml": configMap("a", "1")},
			edit: func(f *fixture) { f.Remove("ConfigMap", "default/old") },
		},
		"the number of replicas": {
			before: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "  replicas: 1\n")},
			after:  map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "  replicas: 2\n")},
		},
		"an image": {
			before: map[string]string{"templates/app.yaml": podsOf("StatefulSet", "one", "")}, after: map[string]string{"templates/app.yaml": podsOf("StatefulSet", "two", "")},
			want: "the takeover would change the pods of StatefulSet default/app (/spec/template/spec/containers/0/image)",
		},
		"an object": {
			before: map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/old.yaml": configMap("old", "1")}, after: map[string]string{"templates/a.yaml": configMap("a", "1")},
			want: "the takeover would delete ConfigMap default/old",
		},
		"both": {
			before: map[string]string{"templates/app.yaml": podsOf("StatefulSet", "one", ""), "templates/old.yaml": configMap("old", "1")},
			after:  map[string]string{"templates/app.yaml": podsOf("StatefulSet", "one", "      serviceAccountName: app\n")},
			want:   "the takeover would delete ConfigMap default/old, and change the pods of StatefulSet default/app (/spec/template/spec/serviceAccountName)",
		},
		"a field that only the first install had": {
			before: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "{{ if .Release.IsInstall }}      serviceAccountName: app{{ end }}\n")},
			after:  map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "{{ if .Release.IsInstall }}      serviceAccountName: app{{ end }}\n")},
			want:   "the takeover would change the pods of Deployment default/app (/spec/template/spec/serviceAccountName)",
		},
		"a field of no manifest": {
			before: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")}, after: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")},
			clientSide: true,
			edit: func(f *fixture) {
				f.Edit("Deployment", "default/app", "helm-operator", change("app", "spec", "template", "spec", "serviceAccount"))
			},
			want: "the takeover would change the pods of Deployment default/app (/spec/template/spec/serviceAccount)",
		},
		"a field of another client": {
			before: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")}, after: map[string]string{"templates/app.yaml": podsOf("Deployment", "one", "")},
			clientSide: true,
			edit: func(f *fixture) {
				f.Edit("Deployment", "default/app", "kubectl-edit", change("app", "spec", "template", "spec", "serviceAccount"))
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := takenOver(t, test.after)
				desired.Consents = nil
				f.operate(made(t, test.before), *desired.Owner)
				if test.clientSide {
					f.forge(1, func(rls *releasev1.Release) { rls.ApplyMethod = "" })
				}
				if test.edit != nil {
					test.edit(f)
				}
				f.TakeRequests()

				_, err := f.reconcile(desired)

				if test.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
					return
				}
				expect.Equal(t, "the hold", test.want, wantError[*ConsentError](t, err).Error())
				if IsTerminal(err) {
					t.Error("the hold is a terminal failure")
				}
				wantRecords(t, f, "web.v1 deployed")
				wantNoWrites(t, f)

				desired.Consents = toAll
				f.must(desired, ActionUpgrade, CauseReleaseChanged)
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestUnfinishedTakeoverWaitsForConsent: an operation that another client did not finish is not ended before
// a user consents.
func TestUnfinishedTakeoverWaitsForConsent(t *testing.T) {
	const want = "the takeover would delete ConfigMap default/old, and change the pods of StatefulSet default/app (/spec/template/spec/containers/0/image)"
	for _, test := range []struct {
		status common.Status
		action Action
		cause  Cause
		after  []string
	}{
		{common.StatusUninstalling, ActionInstall, CauseReleaseChanged, []string{"web.v3 failed", "web.v4 deployed"}},
		{common.StatusPendingUpgrade, ActionUpgrade, CauseInterrupted, []string{"web.v3 superseded", "web.v4 deployed"}},
	} {
		t.Run(string(test.status), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := takenOver(t, map[string]string{"templates/app.yaml": podsOf("StatefulSet", "two", "")})
				desired.Consents = nil
				former := made(t, map[string]string{"templates/app.yaml": podsOf("StatefulSet", "one", ""), "templates/old.yaml": configMap("old", "1")})
				f.operate(former, *desired.Owner)
				f.foreign(former, 3, test.status, nil)
				f.Edit("Secret", "default/"+record.SecretName("web", 3), "operator", func(secret *unstructured.Unstructured) {
					secret.SetOwnerReferences([]metav1.OwnerReference{*desired.Owner})
				})
				f.Remove("Secret", "default/"+record.SecretName("web", 1)) // The history was limited.
				synctest.Wait()
				_, err := f.reconcile(desired)
				<-time.After(wantError[*BusyError](t, err).RetryAfter)
				f.TakeRequests()

				_, err = f.reconcile(desired)

				expect.Equal(t, "the hold", want, wantError[*ConsentError](t, err).Error())
				wantRecords(t, f, "web.v3 "+string(test.status))
				wantNoWrites(t, f)
				if f.Object("ConfigMap", "default/old") == nil {
					t.Error("an object was deleted")
				}

				desired.Consents = toAll
				before := f.Object("StatefulSet", "default/app").GetUID()
				f.must(desired, test.action, test.cause)
				wantRecords(t, f, test.after...)
				f.must(desired, ActionNone, CauseNone)
				expect.Equal(t, "UID of the StatefulSet", before, f.Object("StatefulSet", "default/app").GetUID())
				if f.Object("ConfigMap", "default/old") != nil {
					t.Error("the ConfigMap is left")
				}
			})
		})
	}
}

// refuseAnyChange refuses changes of the object "app" that exists, also in dry runs.
func refuseAnyChange(kind string) func(fakeapi.Request, *unstructured.Unstructured) error {
	refuse := refuseChange(kind, "app")
	return func(request fakeapi.Request, object *unstructured.Unstructured) error {
		if request.Query.Has("dryRun") {
			object = object.DeepCopy()
			object.SetUID("1")
		}
		return refuse(request, object)
	}
}

// wantNoWrites checks that only dry runs and reads were sent.
func wantNoWrites(t *testing.T, f *fixture) {
	t.Helper()
	for _, request := range f.Requests() {
		if !slices.Contains([]string{"get", "list", "watch", "discover"}, request.Verb) && !request.Query.Has("dryRun") {
			t.Errorf("the held takeover sent %s", request)
		}
	}
}

// TestReplacementWaitsForConsent: an object that a takeover must replace is named, and is replaced with
// consent. Nothing is replaced without [Release.ForceReplace], or where a replacement deletes data.
func TestReplacementWaitsForConsent(t *testing.T) {
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: app}\nspec: {resources: {requests: {storage: SIZE}}}\n"
	tests := map[string]struct {
		kind, before, after string
		keeps               bool
		want                string
	}{
		"an object with pods":         {"Deployment", podsOf("Deployment", "one", ""), podsOf("Deployment", "one", "      serviceAccountName: app\n"), false, "the takeover would replace Deployment default/app"},
		"an object without pods":      {"ConfigMap", configMap("app", "1"), configMap("app", "2"), false, "the takeover would replace ConfigMap default/app"},
		"without ForceReplace":        {"Deployment", podsOf("Deployment", "one", ""), podsOf("Deployment", "two", ""), true, ""},
		"an object whose data it has": {"PersistentVolumeClaim", strings.Replace(claim, "SIZE", "2Gi", 1), strings.Replace(claim, "SIZE", "1Gi", 1), false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := takenOver(t, map[string]string{"templates/app.yaml": test.after})
				desired.Consents, desired.ForceReplace = nil, !test.keeps
				f.operate(made(t, map[string]string{"templates/app.yaml": test.before}), *desired.Owner)
				f.With(func() { f.Refuse = refuseAnyChange(test.kind) })
				before := f.Object(test.kind, "default/app").GetUID()
				f.TakeRequests()

				_, err := f.reconcile(desired)

				wantNoWrites(t, f)
				if test.want == "" {
					_ = wantError[*RefusedError](t, err)
					return
				}
				expect.Equal(t, "the hold", test.want, wantError[*ConsentError](t, err).Error())

				desired.Consents = toAll
				f.must(desired, ActionUpgrade, CauseReleaseChanged)
				if f.Object(test.kind, "default/app").GetUID() == before {
					t.Error("the object was not replaced")
				}
				f.With(func() { f.Refuse = nil })
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestConsentErrorsDiffer: also errors that differ only in what their message leaves out have different
// messages, by which users consent.
func TestConsentErrorsDiffer(t *testing.T) {
	text := func(names ...string) string {
		needed := &ConsentError{}
		for _, name := range names {
			needed.Deleted = append(needed.Deleted, ObjectReference{Kind: "Secret", Namespace: "default", Name: name})
		}
		return needed.Error()
	}
	short, shorter := "a b c d e", "a b c d e f"
	expect.Equal(t, "all are named", "the takeover would delete Secret default/a, Secret default/b, Secret default/c, Secret default/d, Secret default/e",
		text(strings.Fields(short)...))
	expect.Equal(t, "a digest stands for the others", true, strings.Contains(text(strings.Fields(shorter)...), "Secret default/e and 1 more (digest of all: "))
	if one, other := text(strings.Fields(shorter)...), text(strings.Fields(short+" g")...); one == other {
		t.Errorf("other objects have the same message: %s", one)
	}
}

// TestChangeByHelmNeedsNoConsent: a revision that a user makes of a release of the engine is no takeover.
func TestChangeByHelmNeedsNoConsent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/app.yaml": podsOf("Deployment", "one", ""), "templates/a.yaml": configMap("a", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		baseline := f.baseline
		f.must(made(t, map[string]string{"templates/app.yaml": podsOf("Deployment", "two", ""), "templates/old.yaml": configMap("old", "1")}), ActionUpgrade, CauseInputsChanged)
		f.Edit("Secret", "default/"+record.SecretName("web", 2), "helm", func(secret *unstructured.Unstructured) {
			labels := secret.GetLabels()
			maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "engine.") })
			secret.SetLabels(labels)
		})
		synctest.Wait()
		f.baseline = baseline

		f.must(desired, ActionUpgrade, CauseReleaseChanged)
	})
}

func TestPodChanges(t *testing.T) {
	containers := []any{map[string]any{"name": "app", "image": "one"}}
	others := []any{map[string]any{"name": "app", "image": "two"}}
	object := func(kind string, containers []any, path ...string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": "a"}}}
		if err := unstructured.SetNestedSlice(object.Object, containers, append(path, "spec", "containers")...); err != nil {
			t.Fatal(err)
		}
		return object
	}
	relabeled := object("Pod", containers)
	relabeled.SetLabels(map[string]string{"a": "b"})
	tests := map[string]struct {
		before, after *unstructured.Unstructured
		want          []string
	}{
		"a Pod":             {object("Pod", containers), object("Pod", others), []string{"/spec/containers/0/image"}},
		"labels of a Pod":   {object("Pod", containers), relabeled, nil},
		"a CronJob":         {object("CronJob", containers, "spec", "jobTemplate", "spec", "template"), object("CronJob", others, "spec", "jobTemplate", "spec", "template"), []string{"/spec/jobTemplate/spec/template/spec/containers/0/image"}},
		"a custom workload": {object("Rollout", containers, "spec", "template"), object("Rollout", others, "spec", "template"), []string{"/spec/template/spec/containers/0/image"}},
		"no pods": {
			&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"type": "a"}}}},
			&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"type": "b"}}}}, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, "fields", strings.Join(test.want, ", "), strings.Join(PodChanges(test.before, test.after), ", "))
		})
	}
}
