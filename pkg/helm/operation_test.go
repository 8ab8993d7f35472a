// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

func newOperation(f *fixture) *operation {
	return &operation{
		engine: f.engine, release: cache.ObjectName{Namespace: "default", Name: "web"}, logger: slog.New(slog.DiscardHandler),
		store: &store{}, known: map[Identity]InventoryEntry{}, bounds: guard.Bounds{Namespace: "default", Scope: ScopeCluster},
	}
}

// TestChangesArePublishedAfterPanic: changes by other clients during the operation and afterwards
// are published.
func TestChangesArePublishedAfterPanic(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.heard()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic does not reach the caller")
				}
			}()
			_, _ = f.engine.measured(t.Context(), desired, Decision{Action: ActionRepair}, f.baseline, func(*operation) (*Deployed, error) {
				f.Edit("ConfigMap", "default/web", "kubectl", change("meanwhile", "data", "index.html"))
				synctest.Wait()
				panic("a defect")
			})
		}()
		told := []string{"object default/web"}
		if diff := cmp.Diff(told, f.heard()); diff != "" {
			t.Errorf("heard of a change meanwhile (-want +got):\n%s", diff)
		}
		f.Edit("Deployment", "default/web", "kubectl", change(int64(9), "spec", "replicas"))
		if diff := cmp.Diff(told, f.heard()); diff != "" {
			t.Errorf("heard of a change afterwards (-want +got):\n%s", diff)
		}
	})
}

func TestBuild(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     []string
	}{
		"nothing":               {"", nil},
		"comments":              {"# a\n---\n# b\n---\n\n", nil},
		"the release's own":     {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", []string{"v1 ConfigMap default/a"}},
		"of another namespace":  {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}", []string{"v1 ConfigMap b/a"}},
		"of no namespace":       {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}", []string{"rbac.authorization.k8s.io/v1 ClusterRole a"}},
		"of a needless one":     {"{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}", []string{"v1 Namespace a"}},
		"JSON":                  {`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}`, []string{"v1 Secret default/a"}},
		"several, with CRLF":    {"# x\r\napiVersion: v1\r\nkind: Secret\r\nmetadata:\r\n  name: a\r\n---\r\n---\r\napiVersion: v1\r\nkind: Service\r\nmetadata: {name: b}\r\n", []string{"v1 Secret default/a", "v1 Service default/b"}},
		"a List":                {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}}, {apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}]}", []string{"v1 Secret default/a", "apps/v1 Deployment default/b"}},
		"a List of a kind":      {"{apiVersion: v1, kind: SecretList, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}", []string{"v1 Secret default/a"}},
		"a List in a List":      {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}]}", []string{"v1 Secret default/a"}},
		"an empty List":         {"{apiVersion: v1, kind: List, items: []}", nil},
		"separator in a string": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {doc: \"\\n---\\na: b\\n\"}}", []string{"v1 ConfigMap default/a"}},
	}
	bubble(t, func(t *testing.T, f *fixture) {
		for name, tc := range tests {
			resources, err := newOperation(f).Build(strings.NewReader(tc.manifest), false)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got []string
			for _, info := range resources {
				ref := reference(info)
				got = append(got, ref.APIVersion+" "+ref.String())
				if info.Object.(*unstructured.Unstructured).GetNamespace() != info.Namespace && ref.Kind != "Namespace" {
					t.Errorf("%s: the namespace in %s is not the object's", name, ref)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestBuildFails(t *testing.T) {
	tests := map[string]struct {
		manifest string
		render   bool
	}{
		"not YAML":            {"a: b: c", true},
		"not an object":       {"- a\n", true},
		"no kind":             {"{apiVersion: v1, metadata: {name: a}}", true},
		"no apiVersion":       {"{kind: Secret, metadata: {name: a}}", true},
		"an item has no kind": {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, metadata: {name: a}}]}", true},
		"kind is not served":  {"{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}", false},
	}
	bubble(t, func(t *testing.T, f *fixture) {
		for name, tc := range tests {
			o := newOperation(f)
			_, err := o.Build(strings.NewReader(tc.manifest), true)
			if err == nil || IsTerminal(err) != tc.render || meta.IsNoMatchError(err) == tc.render {
				t.Errorf("%s: error is %v, want a RenderError %t", name, err, tc.render)
			}
			if o.failure == nil {
				t.Errorf("%s: the failure was not noted", name)
			}
		}
	})
}

// TestClaim marks an object without changing other fields.
func TestClaim(t *testing.T) {
	o := &operation{release: cache.ObjectName{Namespace: "default", Name: "web"}}
	labels, annotations := map[string]any{"app": "a"}, map[string]any{"note": "b"}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}}}
	if o.owned(object) {
		t.Error("an object without marks is owned")
	}
	o.claim(object)
	o.claim(object)
	if !o.owned(object) {
		t.Error("a claimed object is not owned")
	}
	want := map[string]string{"app": "a", manifest.ManagedByLabel: manifest.ManagedByHelm}
	if diff := cmp.Diff(want, object.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want = map[string]string{"note": "b", manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"}
	if diff := cmp.Diff(want, object.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if len(labels) != 1 || len(annotations) != 1 {
		t.Errorf("the maps of before were changed: %v, %v", labels, annotations)
	}
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	o.claim(bare)
	if !o.owned(bare) {
		t.Error("a bare object cannot be claimed")
	}
	other := &operation{release: cache.ObjectName{Namespace: "other", Name: "web"}}
	if other.owned(bare) {
		t.Error("an object belongs to two releases")
	}
}

// TestAbsent: the client that Helm asks whether objects exist opens no
// connection.
func TestAbsent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		o := newOperation(f)
		o.existence = absent
		resources, err := o.Build(strings.NewReader("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"), false)
		if err != nil {
			t.Fatal(err)
		}
		f.TakeRequests()
		if _, err := resource.NewHelper(resources[0].Client, resources[0].Mapping).Get("default", "a"); err == nil {
			t.Error("there is an object")
		}
		wantRequests(t, f)
	})
}

func TestNotSupported(t *testing.T) {
	o := &operation{}
	if _, err := o.Get(nil, false); err == nil {
		t.Error("Get does something")
	}
	if _, err := o.BuildTable(nil, false); err == nil {
		t.Error("BuildTable does something")
	}
}

func TestLogWriter(t *testing.T) {
	var logged bytes.Buffer
	writer := &logWriter{logger: slog.New(slog.NewTextHandler(&logged, nil)).With("pod", "default/a")}
	if n, err := writer.Write([]byte("one\ntwo\n\nthree")); n != 14 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	for _, want := range []string{"line=one", "line=two", "line=three", "pod=default/a"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logged.String())
		}
	}
}

// TestHookLogs: the output of a hook goes to the log when the chart asks for it.
func TestHookLogs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.React = jobsEnd })
		f.Edit("Pod", "default/pre-x", "kubelet", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"job-name": "pre"})
			object.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}
		})
		template := strings.Replace(hook("pre", "pre-install", 0), "helm.sh/hook:", "helm.sh/hook-output-log-policy: hook-succeeded, helm.sh/hook:", 1)
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/pre.yaml": template}), ActionInstall, CauseNotInstalled)
		var asked bool
		for _, request := range f.TakeRequests() {
			asked = asked || request == "get pods default/pre-x/log"
		}
		if !asked {
			t.Error("nobody asked for the log")
		}
	})
}

// TestMeasured: every operation is reported with its result.
func TestMeasured(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Refuse = refuseBad })
		good, bad := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), made(t, map[string]string{"templates/a.yaml": configMap("a", "bad")})
		f.must(good, ActionInstall, CauseNotInstalled)
		f.must(good, ActionNone, CauseNone)
		_, err := f.reconcile(bad)
		_ = wantError[*RefusedError](t, err)
		f.Remove("ConfigMap", "default/a")
		f.uninstall(good)
		var got []string
		for _, operation := range f.operations {
			ended := "done"
			if operation.Err != nil {
				ended = "failed"
			}
			got = append(got, operation.Release.String()+" "+operation.Action+" "+ended)
		}
		if diff := cmp.Diff([]string{"default/web Install done", "default/web Upgrade failed", "default/web Uninstall done"}, got); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
	})
}

// TestKept: an object that is to be kept is left alone by upgrades, too.
func TestKept(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		kept := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n"
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/kept.yaml": kept}), ActionInstall, CauseNotInstalled)
		without := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		f.must(without, ActionUpgrade, CauseInputsChanged)
		object := f.Object("ConfigMap", "default/kept")
		if object == nil || metav1.GetControllerOf(object) != nil {
			t.Errorf("the kept object is %v", object)
		}
		f.must(without, ActionNone, CauseNone)
	})
}
