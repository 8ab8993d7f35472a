// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applyAs repeats the engine's apply of an object, with a changed value, under its field manager.
func (f *fixture) applyAs(manager, kind string, changed func(*unstructured.Unstructured)) {
	f.t.Helper()
	object := f.Object(kind, "default/web")
	changed(object)
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	f.Apply(kind, "default/web", manager, object.Object)
}

// TestDriftUnderOwnFieldManager changes values by an apply under the engine's field manager, which
// leaves the names of the engine's fields as they are.
func TestDriftUnderOwnFieldManager(t *testing.T) {
	tests := map[string]struct {
		kind  string
		path  []string
		value any
		// after is the time between the applies of the engine and the other client.
		after    time.Duration
		restarts bool
	}{
		"ConfigMap":                       {"ConfigMap", []string{"data", "index.html"}, "theirs", time.Second, false},
		"ConfigMap in the same second":    {"ConfigMap", []string{"data", "index.html"}, "theirs", 0, false},
		"ConfigMap while away":            {"ConfigMap", []string{"data", "index.html"}, "theirs", time.Minute, true},
		"Secret":                          {"Secret", []string{"data", "apiKey"}, "dGhlaXJz", time.Second, false},
		"Secret in the same second":       {"Secret", []string{"data", "apiKey"}, "dGhlaXJz", 0, false},
		"Deployment":                      {"Deployment", []string{"spec", "replicas"}, int64(7), time.Second, false},
		"Deployment in the same second":   {"Deployment", []string{"spec", "replicas"}, int64(7), 0, false},
		"Deployment while away":           {"Deployment", []string{"spec", "replicas"}, int64(7), time.Minute, true},
		"label of a Deployment, at once":  {"Deployment", []string{"metadata", "labels", "app.kubernetes.io/instance"}, "theirs", 0, false},
		"label of a Deployment, a minute": {"Deployment", []string{"metadata", "labels", "app.kubernetes.io/instance"}, "theirs", time.Minute, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.decide(desired)
				f.heard()
				f.TakeRequests()
				installed := meant(f.Object(test.kind, "default/web"))

				if test.restarts {
					f.stop()
				}
				<-time.After(test.after)
				f.applyAs(FieldManager, test.kind, change(test.value, test.path...))
				if test.restarts {
					f.restart()
				} else if diff := cmp.Diff([]string{"object default/web"}, f.heard()); diff != "" {
					t.Errorf("heard (-want +got):\n%s", diff)
				}

				f.must(desired, ActionRepair, CauseDrift)
				if diff := cmp.Diff(installed, meant(f.Object(test.kind, "default/web"))); diff != "" {
					t.Errorf("after the repair (-as installed +got):\n%s", diff)
				}
				f.heard()
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestApplyWithoutChangeUnderOwnFieldManager: an apply of equal values is no drift.
func TestApplyWithoutChangeUnderOwnFieldManager(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.decide(desired)
		f.heard()
		f.TakeRequests()

		<-time.After(time.Second)
		f.applyAs(FieldManager, "Deployment", func(*unstructured.Unstructured) {})

		if diff := cmp.Diff([]string(nil), f.heard()); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		f.must(desired, ActionNone, CauseNone)
		wantRequests(t, f)
	})
}

// TestRequestedUpgradeAppliesAllObjects: a requested upgrade does not rely on the engine's
// knowledge.
func TestRequestedUpgradeAppliesAllObjects(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.decide(desired)
		f.TakeRequests()

		deployed, err := f.engine.Execute(t.Context(), desired, Decision{Action: ActionUpgrade, Cause: CauseRequested}, f.baseline)

		if err != nil || deployed.Revision != 2 {
			t.Fatalf("deployed is %v, error is %v", deployed, err)
		}
		var applied []string
		for _, request := range f.TakeRequests() {
			if strings.HasPrefix(request, "apply ") {
				applied = append(applied, request)
			}
		}
		if want := []string{
			"apply secrets default/web", "apply configmaps default/web", "apply services default/web", "apply deployments default/web",
		}; !cmp.Equal(want, applied) {
			t.Errorf("applied (-want +got):\n%s", cmp.Diff(want, applied))
		}
	})
}

// TestBaselineWithoutTimes: the baseline of an earlier version of the operator is completed and
// costs no request.
func TestBaselineWithoutTimes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		current := append([]InventoryEntry(nil), f.baseline.Inventory...)
		for i := range f.baseline.Inventory {
			f.baseline.Inventory[i].Digest, _, _ = strings.Cut(current[i].Digest, "@")
		}
		f.restart()
		f.TakeRequests()

		f.must(desired, ActionNone, CauseNone)

		observed := f.observe(desired)
		if diff := cmp.Diff(current, observed.Completed); diff != "" {
			t.Errorf("completed (-as installed +got):\n%s", diff)
		}
		for _, request := range f.TakeRequests() {
			if strings.HasPrefix(request, "apply ") {
				t.Errorf("request %s", request)
			}
		}
	})
}

// TestDoubtWithoutChange: a controller that writes an object without a generation twice within the second of
// the engine's apply, as the autoscaler does with the status of a HorizontalPodAutoscaler, is no drift. The
// engine applies the object again to find out, and says that nothing was corrected.
func TestDoubtWithoutChange(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		for _, text := range []string{"1", "2"} {
			f.Edit("ConfigMap", "default/a", "kube-controller-manager", change(text, "metadata", "annotations", "observed"))
			synctest.Wait()
		}

		deployed, err := f.engine.Execute(t.Context(), desired, f.decide(desired), f.baseline)
		if err != nil {
			t.Fatal(err)
		}
		if deployed == nil || !deployed.Uncorrected {
			t.Fatalf("deployed is %+v", deployed)
		}
		f.baseline = deployed.Baseline()
		synctest.Wait()
		f.must(desired, ActionNone, CauseNone)
		f.Edit("ConfigMap", "default/a", "kubectl", change("2", "data", "key"))
		synctest.Wait()
		if deployed, err = f.engine.Execute(t.Context(), desired, f.decide(desired), f.baseline); err != nil || deployed.Uncorrected {
			t.Errorf("after a change, deployed is %+v, %v", deployed, err)
		}
	})
}
