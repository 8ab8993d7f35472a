// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/fakeapi"
)

// accountTemplates is a chart whose operations send all sorts of requests.
var accountTemplates = map[string]string{
	"templates/a.yaml": configMap("a", "{{ .Values.v }}"),
	"templates/b.yaml": configMap("b", "1"),
	"templates/lookup.yaml": "{{ $one := lookup \"v1\" \"ConfigMap\" .Release.Namespace \"a\" }}{{ $all := lookup \"v1\" \"ConfigMap\" .Release.Namespace \"\" }}\n" +
		configMap("c", "1"),
	"templates/logs.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: logs, annotations: {" +
		"helm.sh/hook: \"pre-install,pre-upgrade,post-rollback\", helm.sh/hook-output-log-policy: hook-succeeded, helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\"}}\n",
	"templates/slow.yaml": hook("slow", "pre-delete", 0, "hook-succeeded"),
}

// playLifecycle runs every operation of the engine on one release.
func playLifecycle(t *testing.T, f *fixture, account string) {
	t.Helper()
	f.With(func() {
		f.React = func(object *unstructured.Unstructured) bool { return object.GetName() != "slow" && jobsEnd(object) }
	})
	f.Edit("Pod", "default/logs", "kubelet", func(object *unstructured.Unstructured) {
		object.SetLabels(map[string]string{"job-name": "logs"})
		object.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}
	})
	desired := made(t, accountTemplates)
	desired.ServiceAccount, desired.ForceReplace = account, true
	desired.Values = map[string]any{"v": "1"}
	f.must(desired, ActionInstall, CauseNotInstalled)
	desired.Values = map[string]any{"v": "2"}
	f.must(desired, ActionUpgrade, CauseInputsChanged)
	playDrift(t, f, desired)
	playFailure(t, f, desired)
	f.restart()
	if text, err := f.engine.Manifest(t.Context(), desired, f.baseline, f.baseline.Revision); err != nil || !strings.Contains(text, "kind: ConfigMap") {
		t.Errorf("Manifest: %q, %v", text, err)
	}
	done := make(chan error, 1)
	go func() { done <- f.tryUninstall(desired) }()
	<-time.After(time.Second) // It waits for the hook.
	f.Edit("Job", "default/slow", "kube-controller-manager", func(object *unstructured.Unstructured) { jobsEnd(object) })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantRecords(t, f)
}

// playDrift explains and repairs changes and additions of another client.
func playDrift(t *testing.T, f *fixture, desired Release) {
	t.Helper()
	f.baseline.RemoveForeign = true
	f.decide(desired)
	f.Edit("ConfigMap", "default/a", "kubectl", change("x", "data", "key"))
	f.Edit("ConfigMap", "default/b", "kubectl", change("x", "data", "added"))
	f.Remove("ConfigMap", "default/c")
	synctest.Wait()
	if _, err := f.engine.Explain(t.Context(), desired, f.baseline, f.decide(desired).Drifts); err != nil {
		t.Fatal(err)
	}
	f.must(desired, ActionRepair, CauseDrift)
}

// playFailure marks a revision, rolls back from it, and replaces an object.
func playFailure(t *testing.T, f *fixture, desired Release) {
	t.Helper()
	revision := f.baseline.Revision
	err := errors.Join(
		f.engine.MarkFailed(t.Context(), desired, f.baseline, revision, "not healthy"),
		f.engine.MarkDeployed(t.Context(), desired, f.baseline, revision, "healthy"),
		f.engine.MarkFailed(t.Context(), desired, f.baseline, revision, "not healthy"),
	)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if err := f.rollback(desired, revision-1); err != nil {
		t.Fatal(err)
	}
	f.With(func() { f.Refuse = refuseChange("ConfigMap", "a") })
	desired.Values = map[string]any{"v": "3"}
	f.must(desired, ActionUpgrade, CauseInputsChanged)
	f.With(func() { f.Refuse = nil })
	if _, err := f.engine.InTheWay(t.Context(), desired, ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}); err != nil {
		t.Fatal(err)
	}
}

// isShared reports whether a request serves all releases: discovery, and the watch of a kind.
func isShared(request fakeapi.Request) bool {
	return request.Verb == "discover" || request.Verb == "watch" && !request.Query.Has("fieldSelector")
}

func TestServiceAccountSendsEveryRequest(t *testing.T) {
	tests := map[string]string{"": "", "deployer": "system:serviceaccount:default:deployer"}
	for account, user := range tests {
		t.Run("account "+account, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				playLifecycle(t, f, account)

				verbs := map[string]bool{}
				for _, request := range f.Requests() {
					want := user
					if isShared(request) {
						want = ""
					} else {
						verbs[request.Verb+" "+request.Key.Resource.Resource] = true
					}
					if request.User != want {
						t.Errorf("%s was sent as %q, want %q", request, request.User, want)
					}
				}
				for _, want := range []string{
					"apply configmaps", "get configmaps", "list configmaps", "delete configmaps", "update configmaps", "create configmaps",
					"create secrets", "update secrets", "get secrets", "deletecollection secrets",
					"apply jobs", "list jobs", "watch jobs", "delete jobs", "list pods", "get pods",
				} {
					if !verbs[want] {
						t.Errorf("no request %q, so the test does not cover it", want)
					}
				}
			})
		})
	}
}

// TestServiceAccountWithoutPermission: the error names the missing permission in one line.
func TestServiceAccountWithoutPermission(t *testing.T) {
	const user = "system:serviceaccount:default:deployer"
	lookup := "{{ $all := lookup \"v1\" \"ConfigMap\" .Release.Namespace \"\" }}\n"
	tests := map[string]struct{ verb, resource, template string }{
		"object":        {"apply", "configmaps", configMap("a", "1")},
		"hook":          {"apply", "jobs", hook("pre", "pre-install", 0)},
		"record":        {"create", "secrets", configMap("a", "1")},
		"lookup":        {"list", "configmaps", lookup + configMap("a", "1")},
		"impersonation": {"create", "secrets", configMap("a", "1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				resource, object := schema.GroupResource{Resource: test.resource}, ""
				missing := fmt.Sprintf("User %q cannot %s resource %q in the namespace %q", user, test.verb, test.resource, "default")
				if name == "impersonation" {
					resource.Resource, object, missing = "serviceaccounts", "deployer", `User "operator" cannot impersonate resource "serviceaccounts" in the namespace "default"`
				}
				f.With(func() {
					f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
						if request.User != user || request.Verb != test.verb || request.Key.Resource.Resource != test.resource {
							return nil
						}
						return apierrors.NewForbidden(resource, object, errors.New(missing))
					}
				})
				desired := made(t, map[string]string{"templates/a.yaml": test.template})
				desired.ServiceAccount = "deployer"

				_, err := f.reconcile(desired)

				if !apierrors.IsForbidden(err) || IsTerminal(err) {
					t.Fatalf("error is %v, want the API server's refusal, not terminal", err)
				}
				if text := err.Error(); !strings.Contains(text, missing) || strings.Contains(text, "\n") {
					t.Errorf("error is %q, want one line with %q", text, missing)
				}
			})
		})
	}
}

func TestInvalidServiceAccount(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		desired.ServiceAccount = "x:system:masters"
		f.TakeRequests()

		_, err := f.reconcile(desired)

		if !errors.Is(err, ErrInvalidServiceAccount) || !IsTerminal(err) || !strings.HasPrefix(err.Error(), "release default/web: ") {
			t.Errorf("error is %v, want a terminal one about the account", err)
		}
		wantRequests(t, f)
	})
}
