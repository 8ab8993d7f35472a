// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/test/fakeapi"
)

func invalid(causes ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", causes)
}

func TestDuplicateLists(t *testing.T) {
	ports := field.NewPath("spec", "ports")
	mounts := field.NewPath("spec", "template", "spec", "containers").Index(0).Child("volumeMounts")
	tests := map[string]struct {
		err  error
		want []string
	}{
		"nil":              {nil, nil},
		"no answer":        {errors.New("connection refused"), nil},
		"another answer":   {apierrors.NewBadRequest("no"), nil},
		"no duplicate":     {invalid(field.Required(ports.Index(1).Child("port"), "")), nil},
		"a name, no list":  {invalid(field.Required(field.NewPath("metadata", "name"), "")), nil},
		"without names":    {invalid(field.Required(ports.Index(0).Child("name"), ""), field.Required(ports.Index(1).Child("name"), "")), []string{"spec.ports"}},
		"not in a list":    {invalid(field.Duplicate(field.NewPath("spec", "name"), "a")), nil},
		"one":              {invalid(field.Duplicate(ports.Index(1).Child("name"), "http")), []string{"spec.ports"}},
		"the same twice":   {invalid(field.Duplicate(ports.Index(1).Child("name"), "a"), field.Duplicate(ports.Index(2).Child("name"), "b")), []string{"spec.ports"}},
		"an item itself":   {invalid(field.Duplicate(ports.Index(1), "http")), []string{"spec.ports"}},
		"a list in a list": {invalid(field.Duplicate(mounts.Index(2).Child("mountPath"), "/a")), []string{"spec.template.spec.containers[0].volumeMounts"}},
		"among others": {
			invalid(field.Required(field.NewPath("spec"), ""), field.Duplicate(mounts.Index(2), "/a"), field.Duplicate(ports.Index(1), "b")),
			[]string{"spec.ports", "spec.template.spec.containers[0].volumeMounts"},
		},
		"wrapped": {&RefusedError{Err: invalid(field.Duplicate(ports.Index(1), "http"))}, []string{"spec.ports"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{}, tc.want...), append([]string{}, duplicateLists(tc.err)...)); diff != "" {
				t.Errorf("lists (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	const (
		live = `{spec: {ports: [{name: b}, {name: a}], containers: [{name: sidecar}, {name: web, ports: [1, 2]}, {image: x, ports: [3]}]}}`
		ours = `{spec: {ports: [{name: a}], containers: [{name: web, ports: [1]}], text: a}}`
	)
	tests := map[string]struct {
		path    string
		pointer string
		list    any
		ok      bool
	}{
		"a list":                      {"spec.ports", "/spec/ports", []any{map[string]any{"name": "a"}}, true},
		"in an item of another place": {"spec.containers[1].ports", "/spec/containers/1/ports", []any{1.0}, true},
		"in an item that is theirs":   {"spec.containers[0].ports", "", nil, false},
		"in an item without a name":   {"spec.containers[2].ports", "", nil, false},
		"beyond the end":              {"spec.containers[3].ports", "", nil, false},
		"of no number":                {"spec.containers[x].ports", "", nil, false},
		"an index into a text":        {"spec.text[0].ports", "", nil, false},
		"below a text":                {"spec.text.ports", "", nil, false},
		"not ours":                    {"spec.none", "", nil, false},
		"not a list":                  {"spec", "", nil, false},
	}
	var liveObject, ourObject map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(live), &liveObject), yaml.Unmarshal([]byte(ours), &ourObject)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pointer, list, ok := locate(liveObject, ourObject, tc.path)
			if ok != tc.ok || ok && pointer != tc.pointer {
				t.Fatalf("locate = %q, %t, want %q, %t", pointer, ok, tc.pointer, tc.ok)
			}
			if diff := cmp.Diff(tc.list, list); ok && diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}

// uniquePorts is what the API server demands of a Service.
func uniquePorts(object *unstructured.Unstructured) error {
	ports, _, err := unstructured.NestedSlice(object.Object, "spec", "ports")
	if err != nil {
		return err
	}
	names := map[any]bool{}
	for i, port := range ports {
		name := port.(map[string]any)["name"]
		if names[name] {
			return invalid(field.Duplicate(field.NewPath("spec", "ports").Index(i).Child("name"), name))
		}
		names[name] = true
	}
	return nil
}

// TestChangedKey: somebody gives an item of a list another key.
func TestChangedKey(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() { f.Validate = uniquePorts })
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("Service", "default/web", "kubectl-edit", func(object *unstructured.Unstructured) {
			object.Object["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["port"] = int64(8081)
		})
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)
		ports, _, err := unstructured.NestedSlice(f.Object("Service", "default/web").Object, "spec", "ports")
		want := []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP", "targetPort": "http"}}
		if diff := cmp.Diff(want, ports); diff != "" || err != nil {
			t.Errorf("ports, %v (-want +got):\n%s", err, diff)
		}
		f.must(desired, ActionNone, CauseNone)
		// What was put back is owned once: it goes when the chart says so.
		moved := demo(t, map[string]any{"service": map[string]any{"type": "ClusterIP", "port": 82}})
		f.must(moved, ActionUpgrade, CauseInputsChanged)
		f.must(moved, ActionNone, CauseNone)
	})
}

// TestMalformed: a field that the schema does not have is refused for good,
// although the API server answers an apply of it with an internal error.
func TestMalformed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		_, err := f.reconcile(made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"),
			"templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndatas: {key: a}\n",
		}))
		if got := wantError[*RefusedError](t, err); got.Object.Name != "b" {
			t.Errorf("%s was refused, want b", got.Object)
		}
		wantRecords(t, f, "web.v1 failed")
	})
	t.Run("a real internal error", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.FailNth(2, fakeapi.FailBefore)
			if _, err := f.reconcile(demo(t, nil)); !apierrors.IsInternalError(err) || IsTerminal(err) {
				t.Errorf("error is %v, want the API server's, not terminal", err)
			}
		})
	})
}
