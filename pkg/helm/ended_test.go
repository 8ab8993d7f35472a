// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/served"
)

// migration is a template of a Job that expires after its end.
const migration = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\n" +
	"spec: {ttlSecondsAfterFinished: 5, template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n"

// ends reports the end of the Job, as the controller of Jobs does.
func (f *fixture) ends(conditionType string) {
	f.Edit("Job", "default/migrate", "kube-controller-manager", func(job *unstructured.Unstructured) {
		job.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": conditionType, "status": "True", "message": "by a test"}}}
	})
}

// keep stores the additions of an observation to the baseline, as a controller does in its status.
func (f *fixture) keep(observed Snapshot) {
	for _, completed := range observed.Completed {
		i := slices.IndexFunc(f.baseline.Inventory, func(entry InventoryEntry) bool { return entry.ObjectReference == completed.ObjectReference })
		f.baseline.Inventory[i] = completed
	}
}

func TestObjectThatEndedIsDone(t *testing.T) {
	seen := func(f *fixture, desired Release) {
		synctest.Wait()
		f.keep(f.observe(desired))
	}
	gone := func(f *fixture) { f.Remove("Job", "default/migrate") }
	tests := map[string]struct {
		template string
		play     func(f *fixture, desired Release)
		drifts   []DriftKind
		health   []status.Status
	}{
		"succeeded, seen, gone": {
			play: func(f *fixture, desired Release) {
				f.ends("Complete")
				seen(f, desired)
				gone(f)
			},
			health: []status.Status{status.CurrentStatus},
		},
		"succeeded and gone before it is seen": {
			play: func(f *fixture, _ Release) {
				f.ends("Complete")
				gone(f)
			},
			health: []status.Status{status.CurrentStatus},
		},
		"succeeded, gone, another process": {
			play: func(f *fixture, desired Release) {
				f.ends("Complete")
				gone(f)
				seen(f, desired)
				f.restart()
			},
			health: []status.Status{status.CurrentStatus},
		},
		"succeeded, another process, gone": {
			play: func(f *fixture, desired Release) {
				f.ends("Complete")
				f.restart()
				f.observe(desired)
				gone(f)
			},
			health: []status.Status{status.CurrentStatus},
		},
		"failed and gone": {
			play: func(f *fixture, _ Release) {
				f.ends("Failed")
				gone(f)
			},
			health: []status.Status{status.FailedStatus},
		},
		"failed, gone, another process": {
			play: func(f *fixture, desired Release) {
				f.ends("Failed")
				seen(f, desired)
				gone(f)
				f.restart()
			},
			health: []status.Status{status.FailedStatus},
		},
		"deleted before its end":                  {play: func(f *fixture, _ Release) { gone(f) }, drifts: []DriftKind{DriftMissing}},
		"deleted before its end, another process": {play: func(f *fixture, _ Release) { gone(f); f.restart() }, drifts: []DriftKind{DriftMissing}},
		"a Job that stays, deleted after its end": {
			template: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec: {template: {spec: {containers: [{name: a, image: a}]}}}\n",
			play: func(f *fixture, desired Release) {
				f.ends("Complete")
				seen(f, desired)
				gone(f)
			},
			drifts: []DriftKind{DriftMissing},
		},
		"changed after its end": {
			play: func(f *fixture, desired Release) {
				f.ends("Complete")
				seen(f, desired)
				f.Edit("Job", "default/migrate", "kubectl", change("b", "spec", "template", "spec", "restartPolicy"))
			},
			drifts: []DriftKind{DriftChanged}, health: []status.Status{status.CurrentStatus},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				template := migration
				if test.template != "" {
					template = test.template
				}
				desired := made(t, map[string]string{"templates/job.yaml": template})
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.observe(desired)

				test.play(f, desired)
				synctest.Wait()
				got := f.observe(desired)

				var drifts []DriftKind
				for _, drift := range got.Drifts {
					drifts = append(drifts, drift.Kind)
				}
				if diff := cmp.Diff(test.drifts, drifts); diff != "" {
					t.Errorf("drift (-want +got):\n%s", diff)
				}
				var found []status.Status
				for _, object := range got.Health {
					found = append(found, object.Status)
				}
				if diff := cmp.Diff(test.health, found); diff != "" {
					t.Errorf("health (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRevisionRunsEndedObjectAgain: as with Helm, an upgrade creates missing objects.
func TestRevisionRunsEndedObjectAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := made(t, map[string]string{"templates/job.yaml": migration, "templates/map.yaml": configMap("a", "{{ .Values.n }}")})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.observe(desired)
		f.ends("Failed")
		f.Remove("Job", "default/migrate")
		synctest.Wait()
		f.keep(f.observe(desired))

		f.Edit("ConfigMap", "default/a", "kubectl", change("theirs", "data", "key"))
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)

		if f.Object("Job", "default/migrate") != nil {
			t.Error("a repair of another object has created the Job")
		}
		if ended := f.baseline.Inventory[1].Ended; ended != health.Failed && f.baseline.Inventory[0].Ended != health.Failed {
			t.Errorf("the repair has forgotten the end of the Job: %v", f.baseline.Inventory)
		}
		desired.Values = map[string]any{"n": 2}
		f.must(desired, ActionUpgrade, CauseInputsChanged)
		if f.Object("Job", "default/migrate") == nil {
			t.Error("the next revision has not created the Job")
		}
		for _, object := range f.observe(desired).Health {
			if object.Ended != "" {
				t.Errorf("%s counts as ended", object.Object)
			}
		}
	})
}

// TestStatusOfManifestIsNotApplied plays a kind that may have no status subresource.
func TestStatusOfManifestIsNotApplied(t *testing.T) {
	const probe = "apiVersion: example.com/v1\nkind: Probe\nmetadata: {name: a}\nspec: {key: a}\nstatus: {phase: New}\n"
	bubble(t, func(t *testing.T, f *fixture) {
		f.Serve(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "probes"}, "Probe", true)
		<-time.After(served.UnknownKindInterval)
		desired := made(t, map[string]string{"templates/a.yaml": probe})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.observe(desired)

		f.Edit("Probe", "default/a", "controller", func(object *unstructured.Unstructured) { object.Object["status"] = map[string]any{"phase": "Ready"} })
		synctest.Wait()

		f.must(desired, ActionNone, CauseNone)
		if diff := cmp.Diff(map[string]any{"phase": "Ready"}, f.Object("Probe", "default/a").Object["status"]); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

// TestExplanationNamesFieldManagers plays the clients that contests are about.
func TestExplanationNamesFieldManagers(t *testing.T) {
	tests := map[string]struct {
		play     func(f *fixture)
		remove   bool
		fields   []string
		managers []string
	}{
		"a value": {
			play:   func(f *fixture) { f.Edit("ConfigMap", "default/a", "injector", change("theirs", "data", "key")) },
			fields: []string{"/data/key"}, managers: []string{"injector"},
		},
		"a removed field": {
			play: func(f *fixture) {
				f.Edit("ConfigMap", "default/a", "remover", func(object *unstructured.Unstructured) {
					unstructured.RemoveNestedField(object.Object, "data", "key")
				})
			},
			fields: []string{"/data/key"}, // The API server keeps no entry of a manager without fields.
		},
		"the label by which it is watched": {
			play: func(f *fixture) {
				f.Edit("ConfigMap", "default/a", "cleaner", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
			},
			fields: []string{"/metadata/labels"},
		},
		"an added field": {
			play:   func(f *fixture) { f.Edit("ConfigMap", "default/a", "adder", change("theirs", "data", "more")) },
			remove: true, fields: []string{".data.more"}, managers: []string{"adder"},
		},
		"gone": {play: func(f *fixture) { f.Remove("ConfigMap", "default/a") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "ours")})
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.baseline.RemoveForeign = test.remove
				f.observe(desired)
				synctest.Wait()

				test.play(f)
				synctest.Wait()
				observed := f.observe(desired)
				found, err := f.engine.Explain(t.Context(), desired, f.baseline, observed.Drifts)
				if err != nil || len(found) != 1 {
					t.Fatalf("explained %v: %v", found, err)
				}

				if diff := cmp.Diff(test.fields, found[0].Fields); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.managers, found[0].Managers); diff != "" {
					t.Errorf("managers (-want +got):\n%s", diff)
				}
				if writer := observed.Writers[found[0].Drift.Object.Identity()]; (writer != 0) != (test.managers != nil) {
					t.Errorf("writer %d, want that of %v", writer, test.managers)
				}
			})
		})
	}
}
