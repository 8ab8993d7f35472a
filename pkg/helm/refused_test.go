// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// refuseBad is an admission that refuses objects whose data.key is "bad".
func refuseBad(_ fakeapi.Request, object *unstructured.Unstructured) error {
	if object == nil {
		return nil
	}
	if value, _, _ := unstructured.NestedString(object.Object, "data", "key"); value == "bad" {
		return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), nil)
	}
	return nil
}

// TestRefusedObject: a refusal of the API server is terminal, is recorded as failed, and does not
// pile up revisions.
func TestRefusedObject(t *testing.T) {
	bad := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{"templates/a.yaml": configMap("a", "good"), "templates/b.yaml": configMap("b", "bad")})
	}
	good := func(t *testing.T) Release {
		t.Helper()
		return made(t, map[string]string{"templates/a.yaml": configMap("a", "good"), "templates/c.yaml": configMap("c", "good")})
	}
	t.Run("install", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.With(func() { f.Refuse = refuseBad })
			for attempt := range 3 {
				decision, err := f.reconcile(bad(t))
				refusal := wantError[*RefusedError](t, err)
				if refusal.Object.String() != "ConfigMap default/b" || !apierrors.IsInvalid(err) || !IsTerminal(err) {
					t.Errorf("refusal is %v", err)
				}
				if decision.Action != ActionInstall || (decision.Replace == 1) != (attempt > 0) {
					t.Errorf("attempt %d was to %s, replacing %d", attempt, decision.Action, decision.Replace)
				}
				wantRecords(t, f, "web.v1 failed")
			}
			if got := f.record(bad(t)).Info.Description; !strings.Contains(got, "refused") {
				t.Errorf("the record tells %q", got)
			}
			// Other inputs: whatever the failed attempts made and the release does not
			// have goes.
			if _, err := f.reconcile(good(t)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.Names()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			f.must(good(t), ActionNone, CauseNone)
		})
	})
	t.Run("upgrade", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.With(func() { f.Refuse = refuseBad })
			f.must(good(t), ActionInstall, CauseNotInstalled)
			for range 3 {
				_, err := f.reconcile(bad(t))
				_ = wantError[*RefusedError](t, err)
				wantRecords(t, f, "web.v1 deployed", "web.v2 failed")
			}
			f.With(func() { f.Refuse = nil })
			f.must(bad(t), ActionUpgrade, CauseFailed)
			wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
			if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/b"}, f.Names()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			f.must(bad(t), ActionNone, CauseNone)
		})
	})
}

// TestRefusedObjects: as with Helm, the other objects are applied, and the error names all that
// are refused. An upgrade removes nothing then.
func TestRefusedObjects(t *testing.T) {
	chart := func(a, b, c string) Release {
		return made(t, map[string]string{"templates/a.yaml": configMap("a", a), "templates/b.yaml": configMap("b", b), "templates/c.yaml": configMap("c", c)})
	}
	for name, installed := range map[string]bool{"install": false, "upgrade": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				if installed {
					f.must(chart("1", "1", "1"), ActionInstall, CauseNotInstalled)
				}
				f.With(func() { f.Refuse = refuseBad })

				_, err := f.reconcile(chart("bad", "2", "bad"))

				_ = wantError[*RefusedError](t, err)
				for _, part := range []string{"2 errors: ", "ConfigMap default/a was refused", "; ConfigMap default/c was refused"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error is %q, want one that says %q", err, part)
					}
				}
				if value, _, _ := unstructured.NestedString(f.Object("ConfigMap", "default/b").Object, "data", "key"); value != "2" {
					t.Errorf("the object that is not refused has %q", value)
				}
			})
		})
	}
}

func TestDoesNotRender(t *testing.T) {
	tests := map[string]map[string]string{
		"template fails":   {"templates/a.yaml": `{{ fail "no" }}`},
		"template is none": {"templates/a.yaml": `{{ if }}`},
		"required value":   {"templates/a.yaml": `{{ required "no" .Values.a }}`},
		"kubeVersion":      {"Chart.yaml": "apiVersion: v2\nname: test\nversion: 1.2.3\nkubeVersion: \">=9.0.0\"\n", "templates/a.yaml": configMap("a", "1")},
		"beside CRDs":      {"crds/things.yaml": thingsCRD, "templates/a.yaml": `{{ fail "no" }}`},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.With(func() { f.React = establish })
				_, err := f.reconcile(made(t, files))
				if got := wantError[*RenderError](t, err); !IsTerminal(got) || got.Error() == "" {
					t.Errorf("error is %v", got)
				}
				wantRecords(t, f)
				if got := f.Names(); len(files["crds/things.yaml"]) == 0 && len(got) != 0 {
					t.Errorf("objects %s of a chart that does not render", got)
				}
			})
		})
	}
	t.Run("upgrade", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionInstall, CauseNotInstalled)
			f.TakeRequests()
			_, err := f.reconcile(made(t, tests["template fails"]))
			_ = wantError[*RenderError](t, err)
			wantRecords(t, f, "web.v1 deployed")
			wantRequests(t, f)
		})
	})
	t.Run("values that are no JSON", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := made(t, nil)
			desired.Values = map[string]any{"a": func() {}}
			_, err := f.reconcile(desired)
			_ = wantError[*RenderError](t, err)
		})
	})
}

// TestUnknownKind: a kind that the API server does not serve is an error that
// may pass, when its CRD comes.
func TestUnknownKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"})
		_, err := f.reconcile(desired)
		if err == nil || IsTerminal(err) {
			t.Fatalf("error is %v, want one that is not terminal", err)
		}
		for _, part := range []string{`Thing "a"`, "example.com/v1", "install the kind's CRD first"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error is %v, want one that says %q", err, part)
			}
		}
		wantRecords(t, f)
		f.Serve(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, "Thing", true)
		<-time.After(served.UnknownKindInterval)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.must(desired, ActionNone, CauseNone)
	})
}

// thingsCRD is a file under crds/, and establish the controller that serves it.
const thingsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
`

func establish(object *unstructured.Unstructured) bool {
	if object.GetKind() != "CustomResourceDefinition" || object.Object["status"] != nil {
		return false
	}
	object.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
	}}
	return true
}

// TestCRDs: the files under crds/ come first, and are never touched again.
func TestCRDs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
		f.With(func() {
			f.React = func(object *unstructured.Unstructured) bool {
				changed := establish(object)
				if changed {
					f.Kinds[things] = fakeapi.Kind{Kind: things.GroupVersion().WithKind("Thing"), Namespaced: true}
				}
				return changed
			}
		})
		desired := made(t, map[string]string{
			"crds/things.yaml": thingsCRD,
			"templates/a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1}\n",
		})
		f.must(desired, ActionInstall, CauseNotInstalled)
		if diff := cmp.Diff([]string{"CustomResourceDefinition things.example.com", "Thing default/a"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		f.must(desired, ActionNone, CauseNone)
		f.uninstall(desired)
		if diff := cmp.Diff([]string{"CustomResourceDefinition things.example.com"}, f.Names()); diff != "" {
			t.Errorf("objects after uninstall (-want +got):\n%s", diff)
		}
		f.TakeDiscoveries()
		f.baseline = Baseline{}
		f.must(desired, ActionInstall, CauseNotInstalled)
		if got := f.TakeDiscoveries(); got != 0 {
			t.Errorf("%d discovery requests for a CRD that was there", got)
		}
	})
}

func TestReleaseBeyondLimits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		noise := make([]byte, 900_000)
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		small := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		large := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "files/noise": hex.EncodeToString(noise)})
		for range 2 {
			_, err := f.reconcile(large)
			if got := wantError[*ReleaseTooLargeError](t, err); got.Release != "default/web" || !IsTerminal(err) {
				t.Errorf("error is %v", err)
			}
			wantRecords(t, f)
			if got := f.Names(); len(got) > 0 {
				t.Errorf("objects %s of a release without a record", got)
			}
		}
		f.must(small, ActionInstall, CauseNotInstalled)
		_, err := f.reconcile(large)
		_ = wantError[*ReleaseTooLargeError](t, err)
		wantRecords(t, f, "web.v1 deployed")
		f.must(small, ActionNone, CauseNone)
	})
}

// TestImmutableRecordIsRefused: an immutable record Secret is not reported as a release that is too
// large.
func TestImmutableRecordIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionInstall, CauseNotInstalled)
		immutable := field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")}
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.String() != "update secrets default/sh.helm.release.v1.web.v1" {
					return nil
				}
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, request.Key.Name, immutable)
			}
		})

		_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": configMap("a", "2")}))

		refused := wantError[*RefusedError](t, err)
		if refused.Object.String() != "Secret default/sh.helm.release.v1.web.v1" || !IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
	})
}
