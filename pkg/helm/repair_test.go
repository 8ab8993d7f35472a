// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// TestDrift changes a release behind the engine's back.
func TestDrift(t *testing.T) {
	web := func(apiVersion, kind string) ObjectReference {
		return ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "default", Name: "web"}
	}
	tests := map[string]struct {
		do     func(*fixture)
		heard  []string
		drifts []Drift
		// requests are the requests of the repair.
		requests []string
	}{
		"a value changed": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", "kubectl", change("<html>mine</html>", "data", "index.html"))
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web"},
		},
		"a key of a Secret changed": {
			do:       func(f *fixture) { f.Edit("Secret", "default/web", "kubectl", change("bWluZQ==", "data", "apiKey")) },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Secret"), Kind: DriftChanged}},
			requests: []string{"apply secrets default/web"},
		},
		"a field removed": {
			do: func(f *fixture) {
				f.Edit("Service", "default/web", "kubectl", func(object *unstructured.Unstructured) {
					unstructured.RemoveNestedField(object.Object, "spec", "selector", "app.kubernetes.io/instance")
				})
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Service"), Kind: DriftChanged}},
			requests: []string{"apply services default/web"},
		},
		"scaled by hand": {
			do:       func(f *fixture) { f.Edit("Deployment", "default/web", "kubectl", change(int64(9), "spec", "replicas")) },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("apps/v1", "Deployment"), Kind: DriftChanged}},
			requests: []string{"apply deployments default/web"},
		},
		"deleted": {
			do:       func(f *fixture) { f.Remove("Service", "default/web") },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Service"), Kind: DriftMissing}},
			requests: []string{"apply services default/web"},
		},
		"the label gone by which it is watched": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftMissing}},
			requests: []string{"apply configmaps default/web", "apply configmaps default/web"},
		},
		"all marks gone": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
					object.SetLabels(nil)
					object.SetAnnotations(nil)
				})
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftMissing}},
			requests: []string{"apply configmaps default/web", "apply configmaps default/web"},
		},
		"the release's name in it changed": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", "kubectl", change("other", "metadata", "annotations", manifest.ReleaseNameAnnotation))
			},
			heard:    []string{"object default/other", "object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web"},
		},
		"replaced by one that carries our marks": {
			do: func(f *fixture) {
				was := f.Object("ConfigMap", "default/web")
				f.Remove("ConfigMap", "default/web")
				f.Edit("ConfigMap", "default/web", "restore", func(object *unstructured.Unstructured) {
					object.SetLabels(was.GetLabels())
					object.SetAnnotations(was.GetAnnotations())
				})
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftReplaced}},
			requests: []string{"get configmaps default/web", "apply configmaps default/web", "patch configmaps default/web"},
		},
		"two at once": {
			do: func(f *fixture) {
				f.Remove("ConfigMap", "default/web")
				f.Edit("Deployment", "default/web", "kubectl", change(int64(9), "spec", "replicas"))
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftMissing}, {Object: web("apps/v1", "Deployment"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web", "apply deployments default/web"},
		},
		"a field of their own": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", "kubectl", change("theirs", "data", "more"))
				f.Edit("Deployment", "default/web", "kubectl", change("yes", "metadata", "annotations", "theirs"))
			},
		},
		"our field again, with our value": {
			do: func(f *fixture) { f.Edit("Deployment", "default/web", "kubectl", change(int64(1), "spec", "replicas")) },
		},
		"status": {
			do: func(f *fixture) {
				f.EditSubresource("Deployment", "default/web", "kube-controller-manager", "status", change(int64(1), "status", "replicas"))
			},
			heard: []string{"health default/web"},
		},
		"an object that is nobody's": {
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.heard()
				f.TakeRequests()
				tc.do(f)
				if diff := cmp.Diff(tc.heard, f.heard()); diff != "" {
					t.Errorf("heard (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.drifts, f.decide(desired).Drifts); diff != "" {
					t.Fatalf("drifts (-want +got):\n%s", diff)
				}
				if len(tc.drifts) == 0 {
					f.must(desired, ActionNone, CauseNone)
					wantRequests(t, f)
					return
				}
				f.must(desired, ActionRepair, CauseDrift)
				wantRequests(t, f, tc.requests...)
				wantRecords(t, f, "web.v1 deployed")
				f.must(desired, ActionNone, CauseNone)
				fresh := mustInstall(t, desired)
				for _, name := range f.Names() {
					kind, key, _ := strings.Cut(name, " ")
					if diff := cmp.Diff(meant(fresh[name]), meant(f.Object(kind, key))); diff != "" {
						t.Errorf("%s after the repair (-as installed +got):\n%s", name, diff)
					}
				}
			})
		})
	}
}

// TestRepairInPart: repaired objects are known, although other objects could not be repaired.
func TestRepairInPart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Remove("ConfigMap", "default/a")
		f.Remove("ConfigMap", "default/b")
		theirs := f.Edit("ConfigMap", "default/b", "kubectl", func(*unstructured.Unstructured) {})
		f.heard()
		drifted := func() string {
			var names []string
			for _, drift := range f.decide(desired).Drifts {
				names = append(names, drift.Object.Name)
			}
			return strings.Join(names, " ")
		}
		if got := drifted(); got != "a b" {
			t.Fatalf("drifted: %q, want both", got)
		}
		deployed, err := f.engine.Execute(t.Context(), desired, f.decide(desired), f.baseline)
		if conflict := wantError[*OwnershipConflictError](t, err); conflict.Object.Name != "b" {
			t.Errorf("error is %v, want that b belongs to another client", err)
		}
		if diff := cmp.Diff(theirs, f.Object("ConfigMap", "default/b")); diff != "" {
			t.Errorf("their object (-before +after):\n%s", diff)
		}
		if deployed == nil {
			t.Fatal("nothing is returned about the repaired objects")
		}
		f.baseline = deployed.Baseline()
		f.heard()
		if got := drifted(); got != "b" {
			t.Errorf("drifted after the repair: %q, want b", got)
		}
		f.Edit("ConfigMap", "default/a", "kubectl", change("theirs", "data", "key"))
		f.heard()
		if got := drifted(); got != "a b" {
			t.Errorf("drifted after another change: %q, want both", got)
		}
	})
}

// meant is an object without the additions of the API server.
func meant(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	object = object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object.Object
}

// mustInstall installs a release on an API server of its own, inside the bubble
// of the test, and returns its objects.
func mustInstall(t *testing.T, desired Release) map[string]*unstructured.Unstructured {
	t.Helper()
	f := newFixture(t)
	f.must(desired, ActionInstall, CauseNotInstalled)
	objects := map[string]*unstructured.Unstructured{}
	for _, name := range f.Names() {
		kind, key, _ := strings.Cut(name, " ")
		objects[name] = f.Object(kind, key)
	}
	return objects
}

// TestReapply: without a baseline, the engine reads the objects, because only marks prove the
// ownership, and applies them once to get the baseline.
func TestReapply(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		before := f.baseline
		f.baseline = Baseline{}
		synctest.Wait()
		f.TakeRequests()
		time.Sleep(time.Minute) // An apply that changes nothing keeps the time in managedFields.
		f.must(desired, ActionReapply, CauseBaselineUnknown)
		wantRequests(t, f,
			"get secrets default/web", "apply secrets default/web",
			"get configmaps default/web", "apply configmaps default/web",
			"get services default/web", "apply services default/web",
			"get deployments default/web", "apply deployments default/web")
		wantRecords(t, f, "web.v1 deployed")
		if diff := cmp.Diff(before, f.baseline); diff != "" {
			t.Errorf("baseline (-before +after):\n%s", diff)
		}
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestRepairOfAnOldRevision: a decision about a revision that is no longer deployed is not
// executed.
func TestRepairOfAnOldRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		old := f.baseline
		f.must(demo(t, map[string]any{"replicaCount": 2}), ActionUpgrade, CauseInputsChanged)
		f.TakeRequests()
		drift := Drift{Object: old.Inventory[0].ObjectReference, Kind: DriftChanged}
		_, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionRepair, Drifts: []Drift{drift}}, old)
		if !errors.Is(err, ErrNotSynced) {
			t.Errorf("error is %v, want ErrNotSynced", err)
		}
		wantRequests(t, f)
	})
}
