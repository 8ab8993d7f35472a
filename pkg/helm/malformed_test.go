// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/test/fakeapi"
)

func invalid(causes ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", causes)
}

// uniquePorts is a rule of the API server for Services.
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

// TestChangedKey: another client changes the key of a list item.
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
		// The restored item has one owner: it is removed with its removal from the chart.
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
	t.Run("an error without a reason, about a valid object", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.With(func() {
				f.Refuse = func(_ fakeapi.Request, object *unstructured.Unstructured) error {
					if object != nil && object.GetName() == "b" && object.GetUID() == "" {
						return errors.New("etcdserver: request is too large") // The answer is 500 without a reason.
					}
					return nil
				}
			})
			_, err := f.reconcile(made(t, map[string]string{"templates/b.yaml": configMap("b", "1")}))
			var unavailable *UnavailableError
			if err == nil || IsTerminal(err) || errors.As(err, &unavailable) || !strings.Contains(err.Error(), "ConfigMap default/b: ") {
				t.Errorf("error is %v, want one of the object that is not terminal", err)
			}
		})
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
