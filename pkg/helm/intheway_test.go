// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

func TestInTheWay(t *testing.T) {
	tests := map[string]struct {
		change  func(f *fixture)
		changed bool
	}{
		"nothing happened": {nothingHappens, false},
		"its content changed": {func(f *fixture) {
			f.Edit("ConfigMap", "default/a", "kubectl", change("x", "data", "x"))
		}, false},
		"it was given marks": {func(f *fixture) {
			f.Edit("ConfigMap", "default/a", "kubectl", claims)
		}, true},
		"it is gone": {func(f *fixture) { f.Remove("ConfigMap", "default/a") }, true},
		"another took its name": {func(f *fixture) {
			f.Remove("ConfigMap", "default/a")
			f.Edit("ConfigMap", "default/a", "kubectl", nothing)
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.Edit("ConfigMap", "default/a", "kubectl", nothing)
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				_, err := f.reconcile(desired)
				conflict := wantError[*OwnershipConflictError](t, err)
				test.change(f)
				f.TakeRequests()

				seen, err := f.engine.InTheWay(t.Context(), desired, conflict.Object)
				if err != nil {
					t.Fatal(err)
				}

				if changed := seen != conflict.Seen; changed != test.changed {
					t.Errorf("seen is %q after %q", seen, conflict.Seen)
				}
				if diff := cmp.Diff([]string{"get configmaps default/a"}, f.TakeRequests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestInTheWayOfUnservedKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		gone := ObjectReference{APIVersion: "example.com/v1", Kind: "Gone", Namespace: "default", Name: "a"}

		seen, err := f.engine.InTheWay(t.Context(), Release{Namespace: "default", Name: "web"}, gone)

		if err != nil || seen != "" {
			t.Errorf("seen is %q (%v), want nothing", seen, err)
		}
	})
}

func nothingHappens(*fixture) {}

func nothing(*unstructured.Unstructured) {}

// claims puts the marks of the release "web" on an object.
func claims(object *unstructured.Unstructured) {
	object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
	object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"})
}
