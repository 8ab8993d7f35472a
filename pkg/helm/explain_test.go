// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// found is an explanation, as far as tests look at it.
type found struct {
	Kind       DriftKind
	Fields     []string
	Acceptable bool
}

// explain looks closely at the drift that there is.
func (f *fixture) explain(desired Release) []Explanation {
	f.t.Helper()
	observed := f.observe(desired)
	explanations, err := f.engine.Explain(f.t.Context(), desired, f.baseline, observed.Drifts)
	if err != nil {
		f.t.Fatalf("Explain: %v", err)
	}
	return explanations
}

// accept puts an object as it is into the baseline.
func (f *fixture) accept(live InventoryEntry) {
	for i, entry := range f.baseline.Inventory {
		if entry.ObjectReference == live.ObjectReference {
			f.baseline.Inventory[i] = live
		}
	}
}

// setImage is an edit of the Deployment's only container.
func setImage(image string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		path := []string{"spec", "template", "spec", "containers"}
		containers, _, err := unstructured.NestedSlice(object.Object, path...)
		if err != nil || len(containers) != 1 || unstructured.SetNestedField(containers[0].(map[string]any), image, "image") != nil {
			panic("no container")
		}
		change(containers, path...)(object)
	}
}

// imageOf is the image of the Deployment's only container.
func imageOf(object *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return image
}

var replicasIgnored = []IgnoreRule{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}}

func TestExplain(t *testing.T) {
	const kubectl, image = "kubectl-patch", "/spec/template/spec/containers/0/image"
	scale := func(f *fixture) { f.Edit("Deployment", "default/web", kubectl, change(int64(3), "spec", "replicas")) }
	putBackImage := func(f *fixture) {
		was := imageOf(f.Object("Deployment", "default/web"))
		f.Edit("Deployment", "default/web", kubectl, setImage("other:1"))
		f.Edit("Deployment", "default/web", kubectl, setImage(was))
	}
	look := func(resource string) []string {
		return []string{"get " + resource + " default/web", "apply " + resource + " default/web"}
	}
	tests := map[string]struct {
		ignore        []IgnoreRule
		removeForeign bool
		do            func(*fixture)
		want          []found
		requests      []string
	}{
		"a value changed": {
			do:       func(f *fixture) { f.Edit("ConfigMap", "default/web", kubectl, change("mine", "data", "index.html")) },
			want:     []found{{Kind: DriftChanged, Fields: []string{"/data/index.html"}}},
			requests: look("configmaps"),
		},
		"a key of a Secret, which is not named": {
			do: func(f *fixture) {
				f.Edit("Secret", "default/web", kubectl, func(object *unstructured.Unstructured) {
					change("bWluZQ==", "data", "hidden-key")(object)
					change("bWluZQ==", "data", "apiKey")(object)
				})
			},
			want:     []found{{Kind: DriftChanged, Fields: []string{"/data"}}},
			requests: look("secrets"),
		},
		"a key that others added to a Secret, which is not named": {
			removeForeign: true,
			do: func(f *fixture) {
				f.Edit("Secret", "default/web", kubectl, change("bWluZQ==", "data", "hidden-key"))
			},
			want:     []found{{Kind: DriftForeign, Fields: []string{".data"}}},
			requests: []string{"get secrets default/web"},
		},
		"a value put back": {
			do: putBackImage, want: []found{{Kind: DriftChanged}}, requests: look("deployments"),
		},
		"an object gone": {
			do:       func(f *fixture) { f.Remove("ConfigMap", "default/web") },
			want:     []found{{Kind: DriftMissing}},
			requests: []string{"get configmaps default/web"},
		},
		"an ignored field changed": {
			ignore: replicasIgnored, do: scale,
			want: []found{{Kind: DriftChanged, Acceptable: true}}, requests: look("deployments"),
		},
		"an ignored field removed": {
			ignore: []IgnoreRule{{Kind: "ConfigMap", Paths: []string{"/data/index.html"}}},
			do: func(f *fixture) {
				f.Edit("ConfigMap", "default/web", kubectl, func(object *unstructured.Unstructured) {
					unstructured.RemoveNestedField(object.Object, "data", "index.html")
				})
			},
			want: []found{{Kind: DriftChanged, Acceptable: true}}, requests: look("configmaps"),
		},
		"an ignored field and another changed": {
			ignore: replicasIgnored,
			do: func(f *fixture) {
				scale(f)
				f.Edit("Deployment", "default/web", kubectl, setImage("other:1"))
			},
			want: []found{{Kind: DriftChanged, Fields: []string{image}}}, requests: look("deployments"),
		},
		"an ignored field changed and another put back": {
			ignore: replicasIgnored, do: func(f *fixture) { scale(f); putBackImage(f) },
			want: []found{{Kind: DriftChanged}}, requests: look("deployments"),
		},
		"a field added": {
			removeForeign: true,
			do:            func(f *fixture) { f.Edit("ConfigMap", "default/web", kubectl, change("theirs", "data", "more")) },
			want:          []found{{Kind: DriftForeign, Fields: []string{".data.more"}}},
			requests:      []string{"get configmaps default/web"},
		},
		"a value put back that others now own alone": {
			removeForeign: true, do: putBackImage,
			want: []found{{Kind: DriftForeign}, {Kind: DriftChanged}}, requests: look("deployments"),
		},
		"an ignored field that others now own alone": {
			removeForeign: true, ignore: replicasIgnored, do: scale,
			want:     []found{{Kind: DriftForeign, Acceptable: true}, {Kind: DriftChanged, Acceptable: true}},
			requests: look("deployments"),
		},
		"an ignored field changed and another added": {
			removeForeign: true, ignore: replicasIgnored,
			do: func(f *fixture) {
				scale(f)
				f.Edit("Deployment", "default/web", kubectl, change("theirs", "metadata", "labels", "more"))
			},
			want: []found{
				{Kind: DriftForeign, Fields: []string{".metadata.labels.more"}},
				{Kind: DriftChanged, Acceptable: true},
			},
			requests: look("deployments"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.baseline.Ignore, f.baseline.RemoveForeign = test.ignore, test.removeForeign
				f.decide(desired)
				test.do(f)
				synctest.Wait()
				f.TakeRequests()
				before := f.Names()
				var got []found
				for _, explanation := range f.explain(desired) {
					got = append(got, found{explanation.Drift.Kind, explanation.Fields, explanation.Acceptable})
					if explanation.Acceptable {
						f.accept(explanation.Live)
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("explanations (-want +got):\n%s", diff)
				}
				wantRequests(t, f, test.requests...)
				if diff := cmp.Diff(before, f.Names()); diff != "" {
					t.Errorf("objects (-before +after):\n%s", diff)
				}
				var left []DriftKind
				for _, is := range test.want {
					if !is.Acceptable {
						left = append(left, is.Kind)
					}
				}
				var drifts []DriftKind
				for _, drift := range f.decide(desired).Drifts {
					drifts = append(drifts, drift.Kind)
				}
				if diff := cmp.Diff(left, drifts); diff != "" {
					t.Errorf("drift that is left (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestLeftDriftIsCounted: repaired drift counts after the repair. Ignored drift, and drift that
// another client reverted, does not count.
func TestLeftDriftIsCounted(t *testing.T) {
	for _, leave := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.baseline.Ignore, f.baseline.LeaveDrift = replicasIgnored, leave
			f.Edit("Deployment", "default/web", "kubectl", change(int64(3), "spec", "replicas"))
			f.Edit("ConfigMap", "default/web", "kubectl", change("mine", "data", "index.html"))
			f.Remove("Service", "default/web")
			explanations := f.explain(desired)
			if len(explanations) != 3 {
				t.Fatalf("explanations: %+v", explanations)
			}
			var want []Drift
			for _, explanation := range explanations {
				if leave && explanation.Drift.Object.Kind != "Deployment" {
					want = append(want, explanation.Drift)
				}
			}
			operation := f.operations[len(f.operations)-1]
			if diff := cmp.Diff(want, operation.Drifts); diff != "" || operation.Action != "Explain" {
				t.Errorf("%s tells of (-want +got):\n%s", operation.Action, diff)
			}
		})
	}
}

// TestIgnoredFieldsAreNotRemoved: an ignored field is not removed, even if only other clients own
// it. When it is no longer ignored, it gets the chart's value again.
func TestIgnoredFieldsAreNotRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		desired.Ignore = replicasIgnored
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.baseline.Ignore, f.baseline.RemoveForeign = replicasIgnored, true
		f.decide(desired)
		f.Edit("Deployment", "default/web", "kubectl-patch", func(object *unstructured.Unstructured) {
			change(int64(2), "spec", "replicas")(object)
			change("theirs", "metadata", "labels", "more")(object)
		})
		for _, explanation := range f.explain(desired) {
			if explanation.Acceptable {
				f.accept(explanation.Live)
			}
		}
		f.TakeRequests()
		replicas := func(step string, want int64) {
			t.Helper()
			deployment := f.Object("Deployment", "default/web")
			if got, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); got != want {
				t.Errorf("%s: %d replicas, want %d", step, got, want)
			}
			if _, there := deployment.GetLabels()["more"]; there {
				t.Errorf("%s: the label is still there", step)
			}
			f.baseline.RemoveForeign, f.baseline.Ignore = true, desired.Ignore
			if left := f.decide(desired).Drifts; len(left) > 0 {
				t.Errorf("%s: drift is left: %v", step, left)
			}
		}
		f.must(desired, ActionRepair, CauseDrift)
		wantRequests(t, f, "get deployments default/web", "update deployments default/web")
		replicas("ignored", 2)
		wantRequests(t, f)

		desired.Ignore, f.baseline.Ignore = nil, nil
		f.must(desired, ActionRepair, CauseDrift)
		wantRequests(t, f, "get deployments default/web", "apply deployments default/web", "get deployments default/web")
		replicas("no longer ignored", 1)
	})
}

// TestForeignFieldsOfChangedObject: a field that another client removed after the decision is
// restored when additions are removed.
func TestForeignFieldsOfChangedObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.baseline.RemoveForeign = true
		f.decide(desired)
		f.Edit("ConfigMap", "default/web", "kubectl", change("theirs", "data", "more"))
		synctest.Wait()
		decision := f.decide(desired)
		f.Edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
			unstructured.RemoveNestedField(object.Object, "data", "index.html")
		})
		deployed, err := f.engine.Execute(t.Context(), desired, decision, f.baseline)
		if err != nil {
			t.Fatal(err)
		}
		f.baseline = deployed.Baseline()
		f.must(desired, ActionNone, CauseNone)
		data, _, _ := unstructured.NestedStringMap(f.Object("ConfigMap", "default/web").Object, "data")
		if _, there := data["more"]; there || data["index.html"] == "" {
			t.Errorf("data is %v", data)
		}
	})
}

// TestChangeOfDriftedObjectIsReported: a correction of another client's change does not change our
// fingerprint, and is reported. Without drift, nothing is reported.
func TestChangeOfDriftedObjectIsReported(t *testing.T) {
	for _, kind := range []string{"ConfigMap", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				path, values := []string{"data", "index.html"}, [2]any{"mine", "yours"}
				if kind == "Deployment" {
					path, values = []string{"spec", "replicas"}, [2]any{int64(3), int64(4)}
				}
				desired := demo(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				state := func() string {
					t.Helper()
					observed := f.observe(desired)
					return observed.Drifted
				}
				heard := func(step string, want ...string) {
					t.Helper()
					if diff := cmp.Diff(want, f.heard()); diff != "" {
						t.Errorf("%s: heard (-want +got):\n%s", step, diff)
					}
				}
				f.heard()
				f.Edit(kind, "default/web", "kubectl", change("theirs", "metadata", "labels", "more"))
				heard("an addition")
				if got := state(); got != "" {
					t.Errorf("drifted without drift: %s", got)
				}
				f.Edit(kind, "default/web", "kubectl", change(values[0], path...))
				heard("drift", "object default/web")
				first := state()
				f.Edit(kind, "default/web", "kubectl", change(values[1], path...))
				heard("another value", "object default/web")
				second := state()
				if first == "" || first == second {
					t.Errorf("states are %q and %q", first, second)
				}
				if kind == "Deployment" {
					f.EditSubresource(kind, "default/web", "kube-controller-manager", "status", change(int64(1), "status", "replicas"))
					heard("status", "health default/web")
					if got := state(); got != second {
						t.Errorf("the status makes another state: %q and %q", second, got)
					}
				}
				f.must(desired, ActionRepair, CauseDrift)
				f.decide(desired)
				time.Sleep(time.Second) // Within the second of the repair, the change could be another client's apply.
				f.Edit(kind, "default/web", "kubectl", change("other", "metadata", "labels", "more"))
				heard("an addition after the repair")
			})
		})
	}
}

// TestExplainClusterScopedObject explains the drift of an object outside the release's namespace.
func TestExplainClusterScopedObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{
			"templates/a.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a, labels: {key: \"1\"}}\n",
		})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ClusterRole", "a", "kubectl", change("2", "metadata", "labels", "key"))

		explanations := f.explain(desired)

		if len(explanations) != 1 {
			t.Fatalf("%d explanations, want 1", len(explanations))
		}
		if diff := cmp.Diff([]string{"/metadata/labels/key"}, explanations[0].Fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
}
