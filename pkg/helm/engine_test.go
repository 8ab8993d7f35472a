// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// installRequests are the requests of an install of the embedded chart.
var installRequests = []string{
	"create secrets default",
	"apply secrets default/web",
	"apply configmaps default/web",
	"apply services default/web",
	"apply deployments default/web",
	"update secrets default/sh.helm.release.v1.web.v1",
}

func wantRequests(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.taken()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func wantRecords(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.records()); diff != "" {
		t.Errorf("release records (-want +got):\n%s", diff)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an engine without an API server")
	}
	engine, err := New(Config{RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if engine.HasSynced() {
		t.Error("the engine knows the records before it runs")
	}
	if engine.maxHistory != DefaultMaxHistory || engine.timeout != DefaultTimeout {
		t.Errorf("%d revisions, %s, want the defaults", engine.maxHistory, engine.timeout)
	}
}

func TestInstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		decision := f.decide(wanted)
		deployed, err := f.engine.Execute(t.Context(), wanted, decision, Baseline{})
		if err != nil {
			t.Fatal(err)
		}
		wantRequests(t, f, installRequests...)
		wantRecords(t, f, "web.v1 deployed")

		sum := sha256.Sum256([]byte(f.record(wanted).Manifest))
		want := &Deployed{
			Revision: 1, Chart: "demo-app", ChartVersion: "0.1.0", AppVersion: "1.27", ChartDigest: wanted.Chart.Digest()[:16],
			ManifestHash: hex.EncodeToString(sum[:]),
		}
		for _, kind := range []string{"Secret", "ConfigMap", "Service", "Deployment"} {
			object := f.object(kind, "default/web")
			want.Inventory = append(want.Inventory, InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: object.GetAPIVersion(), Kind: kind, Namespace: "default", Name: "web"},
				UID:             object.GetUID(),
				Digest:          fingerprint(object.GetManagedFields()),
			})
		}
		if diff := cmp.Diff(want, deployed); diff != "" {
			t.Errorf("deployed (-want +got):\n%s", diff)
		}
		if len(f.operations) != 1 || f.operations[0].Action != "Install" || f.operations[0].Release != wanted.Key() || f.operations[0].Err != nil {
			t.Errorf("operations: %+v", f.operations)
		}
	})
}

// TestSteadyState: a release that is as wanted costs no request, neither while
// the engine runs nor when it starts again.
func TestSteadyState(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.taken()
		f.must(wanted, ActionNone, CauseNone) // Before the watches have told.
		synctest.Wait()
		f.must(wanted, ActionNone, CauseNone)
		f.restart()
		f.must(wanted, ActionNone, CauseNone)
		wantRequests(t, f)
		if deployed, err := f.engine.Execute(t.Context(), wanted, Decision{Action: ActionNone}, f.baseline); deployed != nil || err != nil {
			t.Errorf("nothing to do gives %v, %v", deployed, err)
		}
	})
}

func TestUpgrade(t *testing.T) {
	const v1, v2 = "default/sh.helm.release.v1.web.v1", "default/sh.helm.release.v1.web.v2"
	tests := map[string]struct {
		values map[string]any
		want   []string
	}{
		"message": {
			map[string]any{"message": "Hi"},
			[]string{"create secrets default", "apply configmaps default/web", "apply deployments default/web", "update secrets " + v1, "update secrets " + v2},
		},
		"replicas": {
			map[string]any{"replicaCount": 2},
			[]string{"create secrets default", "apply deployments default/web", "update secrets " + v1, "update secrets " + v2},
		},
		"a value that is the default": { // The inputs differ, the objects do not.
			map[string]any{"replicaCount": 1},
			[]string{"create secrets default", "update secrets " + v1, "update secrets " + v2},
		},
	}
	for name, tc := range tests {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/watches held %t", name, held), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fixture) {
					f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
					f.heard()
					f.hold(held)
					f.taken()
					f.must(demo(t, tc.values), ActionUpgrade, CauseInputsChanged)
					wantRequests(t, f, tc.want...)
					wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
					f.must(demo(t, tc.values), ActionNone, CauseNone)
					f.hold(false)
					synctest.Wait()
					f.must(demo(t, tc.values), ActionNone, CauseNone)
				})
			})
		}
	}
}

// TestUpgradeRemovesObjects: what the chart no longer has goes, what is new
// comes.
func TestUpgradeRemovesObjects(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")}), ActionInstall, CauseNotInstalled)
		f.taken()
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/c.yaml": configMap("c", "1")}), ActionUpgrade, CauseInputsChanged)
		wantRequests(t, f,
			"create secrets default", "apply configmaps default/c", "delete configmaps default/b",
			"update secrets default/sh.helm.release.v1.web.v1", "update secrets default/sh.helm.release.v1.web.v2",
		)
		if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		if got := len(f.baseline.Inventory); got != 2 {
			t.Errorf("the inventory has %d entries, want 2", got)
		}
	})
}

func TestMaxHistory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.stop()
		config := f.config()
		config.MaxHistory = 3
		f.start(config)
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
		for revision := range 5 {
			f.must(demo(t, map[string]any{"replicaCount": revision + 2}), ActionUpgrade, CauseInputsChanged)
		}
		wantRecords(t, f, "web.v4 superseded", "web.v5 superseded", "web.v6 deployed")
	})
}

// TestDrift changes a release behind the engine's back.
func TestDrift(t *testing.T) {
	web := func(apiVersion, kind string) ObjectReference {
		return ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "default", Name: "web"}
	}
	tests := map[string]struct {
		do     func(*fixture)
		heard  []string
		drifts []Drift
		// requests are those of the repair.
		requests []string
	}{
		"a value changed": {
			do: func(f *fixture) {
				f.edit("ConfigMap", "default/web", "kubectl", change("<html>mine</html>", "data", "index.html"))
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web"},
		},
		"a key of a Secret changed": {
			do:       func(f *fixture) { f.edit("Secret", "default/web", "kubectl", change("bWluZQ==", "data", "apiKey")) },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Secret"), Kind: DriftChanged}},
			requests: []string{"apply secrets default/web"},
		},
		"a field removed": {
			do: func(f *fixture) {
				f.edit("Service", "default/web", "kubectl", func(object *unstructured.Unstructured) {
					unstructured.RemoveNestedField(object.Object, "spec", "selector", "app.kubernetes.io/instance")
				})
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Service"), Kind: DriftChanged}},
			requests: []string{"apply services default/web"},
		},
		"scaled by hand": {
			do:       func(f *fixture) { f.edit("Deployment", "default/web", "kubectl", change(int64(9), "spec", "replicas")) },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("apps/v1", "Deployment"), Kind: DriftChanged}},
			requests: []string{"apply deployments default/web"},
		},
		"deleted": {
			do:       func(f *fixture) { f.remove("Service", "default/web") },
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "Service"), Kind: DriftMissing}},
			requests: []string{"apply services default/web"},
		},
		"the label gone by which it is watched": {
			do: func(f *fixture) {
				f.edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftMissing}},
			requests: []string{"apply configmaps default/web", "apply configmaps default/web"},
		},
		"all marks gone": {
			do: func(f *fixture) {
				f.edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
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
				f.edit("ConfigMap", "default/web", "kubectl", change("other", "metadata", "annotations", releaseNameAnnotation))
			},
			heard:    []string{"object default/other", "object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web", "apply configmaps default/web"},
		},
		"replaced by one that carries our marks": {
			do: func(f *fixture) {
				was := f.object("ConfigMap", "default/web")
				f.remove("ConfigMap", "default/web")
				f.edit("ConfigMap", "default/web", "restore", func(object *unstructured.Unstructured) {
					object.SetLabels(was.GetLabels())
					object.SetAnnotations(was.GetAnnotations())
				})
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftReplaced}},
			requests: []string{"apply configmaps default/web"},
		},
		"two at once": {
			do: func(f *fixture) {
				f.remove("ConfigMap", "default/web")
				f.edit("Deployment", "default/web", "kubectl", change(int64(9), "spec", "replicas"))
			},
			heard:    []string{"object default/web"},
			drifts:   []Drift{{Object: web("v1", "ConfigMap"), Kind: DriftMissing}, {Object: web("apps/v1", "Deployment"), Kind: DriftChanged}},
			requests: []string{"apply configmaps default/web", "apply deployments default/web"},
		},
		"a field of their own": {
			do: func(f *fixture) {
				f.edit("ConfigMap", "default/web", "kubectl", change("theirs", "data", "more"))
				f.edit("Deployment", "default/web", "kubectl", change("yes", "metadata", "annotations", "theirs"))
			},
		},
		"our field again, with our value": {
			do: func(f *fixture) { f.edit("Deployment", "default/web", "kubectl", change(int64(1), "spec", "replicas")) },
		},
		"status": {
			do: func(f *fixture) {
				f.editPart("Deployment", "default/web", "kube-controller-manager", "status", change(int64(1), "status", "replicas"))
			},
			heard: []string{"health default/web"},
		},
		"an object that is nobody's": {
			do: func(f *fixture) {
				f.edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				wanted := demo(t, nil)
				f.must(wanted, ActionInstall, CauseNotInstalled)
				f.heard()
				f.taken()
				tc.do(f)
				if diff := cmp.Diff(tc.heard, f.heard()); diff != "" {
					t.Errorf("heard (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.drifts, f.decide(wanted).Drifts); diff != "" {
					t.Fatalf("drifts (-want +got):\n%s", diff)
				}
				if len(tc.drifts) == 0 {
					f.must(wanted, ActionNone, CauseNone)
					wantRequests(t, f)
					return
				}
				f.must(wanted, ActionRepair, CauseDrift)
				wantRequests(t, f, tc.requests...)
				wantRecords(t, f, "web.v1 deployed")
				f.must(wanted, ActionNone, CauseNone)
				fresh := mustInstall(t, wanted)
				for _, name := range f.names() {
					kind, key, _ := strings.Cut(name, " ")
					if diff := cmp.Diff(meant(fresh[name]), meant(f.object(kind, key))); diff != "" {
						t.Errorf("%s after the repair (-as installed +got):\n%s", name, diff)
					}
				}
			})
		})
	}
}

// meant is an object without what the API server adds.
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
func mustInstall(t *testing.T, wanted Release) map[string]*unstructured.Unstructured {
	t.Helper()
	f := newFixture(t)
	f.must(wanted, ActionInstall, CauseNotInstalled)
	objects := map[string]*unstructured.Unstructured{}
	for _, name := range f.names() {
		kind, key, _ := strings.Cut(name, " ")
		objects[name] = f.object(kind, key)
	}
	return objects
}

// TestReplacedByOthers: an object that somebody deleted and made anew, without
// our marks, is theirs.
func TestReplacedByOthers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.remove("ConfigMap", "default/web")
		theirs := f.edit("ConfigMap", "default/web", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"mine": "yes"}
		})
		synctest.Wait()
		_, err := f.reconcile(wanted)
		conflict := wantError[*OwnershipConflictError](t, err)
		if want := "somebody else (made with kubectl)"; conflict.Holder != want || conflict.Object.Kind != "ConfigMap" {
			t.Errorf("conflict over %s with %q, want %q", conflict.Object, conflict.Holder, want)
		}
		if diff := cmp.Diff(theirs, f.object("ConfigMap", "default/web")); diff != "" {
			t.Errorf("their object (-before +after):\n%s", diff)
		}
	})
}

// TestReapply: without a baseline, the objects are applied once to learn it.
func TestReapply(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		before := f.baseline
		f.baseline = Baseline{}
		synctest.Wait()
		f.taken()
		f.must(wanted, ActionReapply, CauseBaselineUnknown)
		wantRequests(t, f, installRequests[1:5]...)
		wantRecords(t, f, "web.v1 deployed")
		if diff := cmp.Diff(before, f.baseline); diff != "" {
			t.Errorf("baseline (-before +after):\n%s", diff)
		}
		f.must(wanted, ActionNone, CauseNone)
	})
}

// TestRepairOfAnOldRevision: what was decided about another revision than the
// one that is deployed now is not carried out.
func TestRepairOfAnOldRevision(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		old := f.baseline
		f.must(demo(t, map[string]any{"replicaCount": 2}), ActionUpgrade, CauseInputsChanged)
		f.taken()
		drift := Drift{Object: old.Inventory[0].ObjectReference, Kind: DriftChanged}
		_, err := f.engine.Execute(t.Context(), wanted, Decision{Action: ActionRepair, Drifts: []Drift{drift}}, old)
		if !errors.Is(err, ErrNotSynced) {
			t.Errorf("error is %v, want ErrNotSynced", err)
		}
		wantRequests(t, f)
	})
}

// TestOwnershipConflict: an object of somebody else in the way ends the attempt,
// and nothing of it is left.
func TestOwnershipConflict(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		holder string
	}{
		"made by hand": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"app": "theirs"})
		}, "somebody else (made with kubectl)"},
		"of another release": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{managedByLabel: managedByHelm})
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "other", releaseNamespaceAnnotation: "default"})
		}, "the Helm release default/other"},
		"of a release of that name elsewhere": {func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{managedByLabel: managedByHelm})
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "web", releaseNamespaceAnnotation: "other"})
		}, "the Helm release other/web"},
		"with our annotations, not managed by Helm": {func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "web", releaseNamespaceAnnotation: "default"})
		}, "the Helm release default/web"},
	}
	for name, tc := range tests {
		t.Run("install/"+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				theirs := f.edit("Deployment", "default/web", "kubectl", tc.change)
				for range 2 {
					_, err := f.reconcile(demo(t, nil))
					conflict := wantError[*OwnershipConflictError](t, err)
					if conflict.Holder != tc.holder || conflict.Object.String() != "Deployment default/web" {
						t.Errorf("conflict over %s with %q, want the holder %q", conflict.Object, conflict.Holder, tc.holder)
					}
					if !IsTerminal(err) {
						t.Error("the conflict is not terminal")
					}
					synctest.Wait()
					wantRecords(t, f)
					if diff := cmp.Diff([]string{"Deployment default/web"}, f.names()); diff != "" {
						t.Errorf("objects (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(theirs, f.object("Deployment", "default/web")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				f.remove("Deployment", "default/web")
				f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
				wantRecords(t, f, "web.v1 deployed")
			})
		})
		t.Run("upgrade/"+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				first := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
				f.must(first, ActionInstall, CauseNotInstalled)
				theirs := f.edit("ConfigMap", "default/c", "kubectl", tc.change)
				second := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/c.yaml": configMap("c", "1")})
				_, err := f.reconcile(second)
				_ = wantError[*OwnershipConflictError](t, err)
				wantRecords(t, f, "web.v1 deployed")
				if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.names()); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(theirs, f.object("ConfigMap", "default/c")); diff != "" {
					t.Errorf("their object (-before +after):\n%s", diff)
				}
				f.must(first, ActionNone, CauseNone)
				f.remove("ConfigMap", "default/c")
				f.must(second, ActionUpgrade, CauseInputsChanged)
				wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
			})
		})
	}
}

// TestTakeOver: objects that are marked as the release's own are taken, as Helm
// does.
func TestTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{managedByLabel: managedByHelm})
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "web", releaseNamespaceAnnotation: "default"})
			object.Object["data"] = map[string]any{"key": "theirs", "more": "theirs"}
		})
		f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "ours")}), ActionInstall, CauseNotInstalled)
		data, _, err := unstructured.NestedStringMap(f.object("ConfigMap", "default/a").Object, "data")
		if diff := cmp.Diff(map[string]string{"key": "ours", "more": "theirs"}, data); diff != "" || err != nil {
			t.Errorf("data, %v (-want +got):\n%s", err, diff)
		}
	})
}

// refuseBad is an admission that refuses objects whose data.key is "bad".
func refuseBad(_ fakeRequest, object *unstructured.Unstructured) error {
	if object == nil {
		return nil
	}
	if value, _, _ := unstructured.NestedString(object.Object, "data", "key"); value == "bad" {
		return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), nil)
	}
	return nil
}

// TestRefusedObject: what the API server refuses is terminal, is recorded as failed,
// and does not pile up revisions.
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
			f.with(func() { f.refuse = refuseBad })
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
			if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/c"}, f.names()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			f.must(good(t), ActionNone, CauseNone)
		})
	})
	t.Run("upgrade", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.with(func() { f.refuse = refuseBad })
			f.must(good(t), ActionInstall, CauseNotInstalled)
			for range 3 {
				_, err := f.reconcile(bad(t))
				_ = wantError[*RefusedError](t, err)
				wantRecords(t, f, "web.v1 deployed", "web.v2 failed")
			}
			f.with(func() { f.refuse = nil })
			f.must(bad(t), ActionUpgrade, CauseFailed)
			wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
			if diff := cmp.Diff([]string{"ConfigMap default/a", "ConfigMap default/b"}, f.names()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			f.must(bad(t), ActionNone, CauseNone)
		})
	})
}

func TestDoesNotRender(t *testing.T) {
	tests := map[string]map[string]string{
		"template fails":       {"templates/a.yaml": `{{ fail "no" }}`},
		"template is none":     {"templates/a.yaml": `{{ if }}`},
		"required value":       {"templates/a.yaml": `{{ required "no" .Values.a }}`},
		"not YAML":             {"templates/a.yaml": "a: b: c"},
		"no kind":              {"templates/a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"},
		"no apiVersion":        {"templates/a.yaml": "kind: ConfigMap\nmetadata: {name: a}\n"},
		"dependency is absent": {"Chart.yaml": "apiVersion: v2\nname: test\nversion: 1.2.3\ndependencies: [{name: none, version: 1.0.0}]\n", "templates/a.yaml": `{{ include "none.a" . }}`},
		"beside CRDs":          {"crds/things.yaml": thingsCRD, "templates/a.yaml": `{{ fail "no" }}`},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.with(func() { f.react = establish })
				_, err := f.reconcile(made(t, files))
				if got := wantError[*RenderError](t, err); !IsTerminal(got) || got.Error() == "" {
					t.Errorf("error is %v", got)
				}
				wantRecords(t, f)
				if got := f.names(); len(files["crds/things.yaml"]) == 0 && len(got) != 0 {
					t.Errorf("objects %s of a chart that does not render", got)
				}
			})
		})
	}
	t.Run("upgrade", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			f.must(made(t, map[string]string{"templates/a.yaml": configMap("a", "1")}), ActionInstall, CauseNotInstalled)
			f.taken()
			_, err := f.reconcile(made(t, tests["template fails"]))
			_ = wantError[*RenderError](t, err)
			wantRecords(t, f, "web.v1 deployed")
			wantRequests(t, f)
		})
	})
	t.Run("values that are no JSON", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := made(t, nil)
			wanted.Values = map[string]any{"a": func() {}}
			_, err := f.reconcile(wanted)
			_ = wantError[*RenderError](t, err)
		})
	})
}

// TestUnknownKind: a kind that the API server does not serve is an error that
// may pass, when its CRD comes.
func TestUnknownKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{"templates/a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"})
		_, err := f.reconcile(wanted)
		if err == nil || IsTerminal(err) {
			t.Fatalf("error is %v, want one that is not terminal", err)
		}
		wantRecords(t, f)
		f.serveKind(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, "Thing", true)
		<-time.After(unknownKindInterval)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.must(wanted, ActionNone, CauseNone)
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
		f.with(func() {
			f.react = func(object *unstructured.Unstructured) bool {
				changed := establish(object)
				if changed {
					f.kinds[things] = fakeKind{kind: things.GroupVersion().WithKind("Thing"), namespaced: true}
				}
				return changed
			}
		})
		wanted := made(t, map[string]string{
			"crds/things.yaml": thingsCRD,
			"templates/a.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1}\n",
		})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		if diff := cmp.Diff([]string{"CustomResourceDefinition things.example.com", "Thing default/a"}, f.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		f.must(wanted, ActionNone, CauseNone)
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"CustomResourceDefinition things.example.com"}, f.names()); diff != "" {
			t.Errorf("objects after uninstall (-want +got):\n%s", diff)
		}
	})
}

func TestReleaseTooLarge(t *testing.T) {
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
			if got := f.names(); len(got) > 0 {
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

// foreign lets somebody else, such as the helm CLI, write a record: it goes by
// Helm's own driver, past the engine.
func (f *fixture) foreign(wanted Release, revision int, recordStatus common.Status, change func(*releasev1.Release)) {
	f.t.Helper()
	config := f.config()
	client, err := kubernetes.NewForConfigAndClient(config.RESTConfig, config.HTTPClient)
	if err != nil {
		f.t.Fatal(err)
	}
	releases := storage.Init(driver.NewSecrets(client.CoreV1().Secrets(wanted.Namespace)))
	rls := *f.record(wanted)
	info := *rls.Info
	rls.Info, rls.Version, rls.Labels = &info, revision, maps.Clone(rls.Labels)
	rls.Info.Status = recordStatus
	if change != nil {
		change(&rls)
	}
	if err := releases.Create(&rls); err != nil {
		f.t.Fatal(err)
	}
	f.taken()
}

// TestForeignRevision: a revision made by somebody else is noticed, and brought
// back to what is wanted.
func TestForeignRevision(t *testing.T) {
	tests := map[string]common.Status{
		"deployed": common.StatusDeployed,
		"failed":   common.StatusFailed,
	}
	for name, recordStatus := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				wanted := demo(t, nil)
				f.must(wanted, ActionInstall, CauseNotInstalled)
				synctest.Wait()
				// Helm carries the labels over: only the revision tells that the record is
				// not ours.
				f.foreign(wanted, 2, recordStatus, func(rls *releasev1.Release) {
					rls.Manifest = strings.ReplaceAll(rls.Manifest, "replicas: 1", "replicas: 7")
				})
				f.edit("Deployment", "default/web", "helm-cli", func(object *unstructured.Unstructured) {
					object.Object["spec"].(map[string]any)["replicas"] = int64(7)
				})
				if heard := f.heard(); !slices.Contains(heard, "record default/web") {
					t.Errorf("heard %s, want a changed record", heard)
				}
				f.must(wanted, ActionUpgrade, CauseReleaseChanged)
				replicas, _, err := unstructured.NestedInt64(f.object("Deployment", "default/web").Object, "spec", "replicas")
				if err != nil || replicas != 1 {
					t.Errorf("replicas = %d, %v, want 1", replicas, err)
				}
				f.must(wanted, ActionNone, CauseNone)
			})
		})
	}
}

// TestForeignPending: the operation of somebody else is waited for, until it
// counts as abandoned.
func TestForeignPending(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.foreign(wanted, 2, common.StatusPendingUpgrade, nil)
		synctest.Wait()
		decision, err := f.reconcile(wanted)
		busy := wantError[*BusyError](t, err)
		if decision.Action != ActionWait || busy.RetryAfter <= 0 || busy.RetryAfter > DefaultTimeout || IsTerminal(err) {
			t.Errorf("%s: %v, again after %s", decision.Action, err, busy.RetryAfter)
		}
		wantRequests(t, f)
		<-time.After(busy.RetryAfter)
		f.must(wanted, ActionUpgrade, CauseInterrupted)
		wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
		f.must(wanted, ActionNone, CauseNone)
	})
}

// TestForeignPendingUnseen: an operation of somebody else that began after the
// decision is no fault of the chart.
func TestForeignPendingUnseen(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		changed := demo(t, map[string]any{"replicaCount": 2})
		decision := f.decide(changed)
		f.hold(true)
		f.foreign(wanted, 2, common.StatusPendingUpgrade, nil)
		for _, seen := range []bool{false, true} {
			f.hold(!seen)
			synctest.Wait()
			_, err := f.engine.Execute(t.Context(), changed, decision, f.baseline)
			_ = wantError[*BusyError](t, err)
		}
		wantRecords(t, f, "web.v1 deployed", "web.v2 pending-upgrade")
	})
}

// TestForeignUninstall: a release that somebody uninstalled is installed again,
// whether its history was kept or not.
func TestForeignUninstall(t *testing.T) {
	t.Run("history kept", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.foreign(wanted, 2, common.StatusUninstalled, nil)
			for _, kind := range []string{"ConfigMap", "Secret", "Service", "Deployment"} {
				f.remove(kind, "default/web")
			}
			synctest.Wait()
			f.must(wanted, ActionInstall, CauseReleaseChanged)
			if got := f.names(); len(got) != 4 {
				t.Errorf("objects %s, want 4", got)
			}
			f.must(wanted, ActionNone, CauseNone)
		})
	})
	t.Run("uninstall stopped halfway", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.foreign(wanted, 2, common.StatusUninstalling, nil)
			f.remove("Service", "default/web")
			synctest.Wait()
			_, err := f.reconcile(wanted)
			<-time.After(wantError[*BusyError](t, err).RetryAfter)
			f.must(wanted, ActionInstall, CauseReleaseChanged)
			wantRecords(t, f, "web.v1 deployed")
			if got := f.names(); len(got) != 4 {
				t.Errorf("objects %s, want 4", got)
			}
			f.must(wanted, ActionNone, CauseNone)
		})
	})
	t.Run("records deleted", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.heard()
			f.remove("Secret", "default/sh.helm.release.v1.web.v1")
			if diff := cmp.Diff([]string{"record default/web"}, f.heard()); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
			f.must(wanted, ActionInstall, CauseNotInstalled)
			wantRecords(t, f, "web.v1 deployed")
			f.must(wanted, ActionNone, CauseNone)
		})
	})
}

// TestClientSideRelease takes over a release as Helm 3 left it: applied on the
// client's side, so that its fields belong to updates.
func TestClientSideRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		two := made(t, map[string]string{"templates/a.yaml": configMap("a", "one") + "  gone: later\n"})
		f.must(two, ActionInstall, CauseNotInstalled)
		f.foreign(two, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			rls.ApplyMethod = string(releasev1.ApplyMethodClientSideApply)
		})
		was := f.object("ConfigMap", "default/a")
		f.remove("ConfigMap", "default/a")
		f.edit("ConfigMap", "default/a", "helm", func(object *unstructured.Unstructured) {
			object.SetLabels(was.GetLabels())
			object.SetAnnotations(was.GetAnnotations())
			object.Object["data"] = was.Object["data"]
		})
		synctest.Wait()
		one := made(t, map[string]string{"templates/a.yaml": configMap("a", "two")})
		f.must(one, ActionUpgrade, CauseReleaseChanged)
		data, _, err := unstructured.NestedStringMap(f.object("ConfigMap", "default/a").Object, "data")
		if diff := cmp.Diff(map[string]string{"key": "two"}, data); diff != "" || err != nil {
			t.Errorf("data, %v (-want +got):\n%s", err, diff)
		}
		f.must(one, ActionNone, CauseNone)
	})
}

func TestUninstall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		for revision := range 4 {
			f.must(demo(t, map[string]any{"replicaCount": revision + 2}), ActionUpgrade, CauseInputsChanged)
		}
		synctest.Wait()
		f.taken()
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		wantRequests(t, f,
			"update secrets default/sh.helm.release.v1.web.v5",
			"delete services default/web", "delete deployments default/web", "delete configmaps default/web", "delete secrets default/web",
			"deletecollection secrets default",
		)
		wantRecords(t, f)
		if got := f.names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), Baseline{}); err != nil {
			t.Errorf("nothing to uninstall: %v", err)
		}
		wantRequests(t, f)
		f.must(wanted, ActionInstall, CauseNotInstalled)
	})
}

// TestUninstallPreconditions: what took the place of an object of ours between
// the look and the deletion is not deleted.
func TestUninstallPreconditions(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.hold(true)
		f.remove("ConfigMap", "default/web")
		f.edit("ConfigMap", "default/web", "kubectl", func(*unstructured.Unstructured) {})
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ConfigMap default/web"}, f.names()); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestUninstallLeaves: what is not the release's to delete stays.
func TestUninstallLeaves(t *testing.T) {
	kept := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  annotations: {helm.sh/resource-policy: keep}\n"
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1"), "templates/kept.yaml": kept,
		})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "other", releaseNamespaceAnnotation: "default"})
		})
		synctest.Wait()
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ConfigMap default/b", "ConfigMap default/kept"}, f.names()); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestUninstallDeletesWhatLostItsMarks: an object that the release made is
// deleted although somebody took away what says so.
func TestUninstallDeletesWhatLostItsMarks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/b.yaml": configMap("b", "1")})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetAnnotations(nil) })
		f.edit("ConfigMap", "default/b", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		synctest.Wait()
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if got := f.names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}

// TestInstallOverOwnObject: without any record or baseline, the owner still
// tells whose an object is.
func TestInstallOverOwnObject(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		wanted.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "App", Name: "web", UID: "1234", Controller: ptr.To(true)}
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.SetAnnotations(nil)
			object.SetLabels(nil)
		})
		f.remove("Secret", "default/sh.helm.release.v1.web.v1")
		f.baseline = Baseline{}
		synctest.Wait()
		f.must(wanted, ActionInstall, CauseNotInstalled)
		wanted.Owner.UID = "5678"
		f.remove("Secret", "default/sh.helm.release.v1.web.v1")
		f.edit("ConfigMap", "default/a", "kubectl", func(object *unstructured.Unstructured) { object.SetLabels(nil) })
		f.baseline = Baseline{}
		synctest.Wait()
		_, err := f.reconcile(wanted)
		var conflict *OwnershipConflictError
		if !errors.As(err, &conflict) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestUninstallWithoutRecords: when somebody deleted the records, the inventory
// still tells what to remove.
func TestUninstallWithoutRecords(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		f.remove("Secret", "default/sh.helm.release.v1.web.v1")
		synctest.Wait()
		gone := InventoryEntry{ObjectReference: ObjectReference{APIVersion: "example.com/v1", Kind: "Gone", Namespace: "default", Name: "web"}}
		f.baseline.Inventory = append(f.baseline.Inventory, gone)
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if got := f.names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}

// TestUninstallFails: a release whose objects cannot be deleted keeps its
// records, so that the next attempt knows what to do.
func TestUninstallFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.with(func() {
			f.fault = func(request fakeRequest) fakeFault {
				if request.String() == "delete services default/web" {
					return faultBefore
				}
				return faultNone
			}
		})
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); !apierrors.IsInternalError(err) {
			t.Fatalf("error is %v, want the API server's", err)
		}
		wantRecords(t, f, "web.v1 uninstalling")
		f.with(func() { f.fault = nil })
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		wantRecords(t, f)
		if got := f.names(); len(got) > 0 {
			t.Errorf("left behind: %s", got)
		}
	})
}

// TestOwner: the release's objects have an owner, but for those that cannot.
func TestOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{
			"templates/a.yaml":     configMap("a", "1"),
			"templates/other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n",
			"templates/role.yaml":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\n",
			"templates/kept.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
			"templates/hook.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
			"templates/list.yaml":  "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: item}\n",
		})
		owner := demoOwner()
		wanted.Owner = &owner
		f.must(wanted, ActionInstall, CauseNotInstalled)
		got := map[string]int{}
		for _, name := range f.names() {
			kind, key, _ := strings.Cut(name, " ")
			got[name] = len(f.object(kind, key).GetOwnerReferences())
		}
		want := map[string]int{
			"ConfigMap default/a": 1, "ConfigMap default/item": 1, "ConfigMap default/kept": 0, "ConfigMap default/hook": 0,
			"ConfigMap other/b": 0, "ClusterRole web": 0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		f.must(wanted, ActionNone, CauseNone)

		again := demoOwner()
		again.UID = "u2"
		wanted.Owner = &again
		f.must(wanted, ActionUpgrade, CauseInputsChanged)
		if diff := cmp.Diff([]metav1.OwnerReference{again}, f.object("ConfigMap", "default/a").GetOwnerReferences()); diff != "" {
			t.Errorf("owners after a new owner (-want +got):\n%s", diff)
		}
	})
}

// TestRandomChart: a chart that renders differently each time does not loop.
func TestRandomChart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{"templates/a.yaml": configMap("a", `{{ randAlphaNum 20 }}`)})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		value := f.object("ConfigMap", "default/a").Object["data"]
		synctest.Wait()
		f.must(wanted, ActionNone, CauseNone)
		f.remove("ConfigMap", "default/a")
		synctest.Wait()
		f.must(wanted, ActionRepair, CauseDrift)
		if diff := cmp.Diff(value, f.object("ConfigMap", "default/a").Object["data"]); diff != "" {
			t.Errorf("the repair rendered again (-installed +repaired):\n%s", diff)
		}
	})
}

// TestStringData: a Secret written with stringData drifts like any other.
func TestStringData(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := made(t, map[string]string{"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {key: geheim}\n"})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		f.edit("Secret", "default/a", "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"key": "bWluZQ=="}
		})
		synctest.Wait()
		f.must(wanted, ActionRepair, CauseDrift)
		f.must(wanted, ActionNone, CauseNone)
	})
}

// TestCancelledContext: an operation goes on when its caller gives up, so that
// a shutdown leaves nothing pending.
func TestCancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.with(func() {
			f.fault = func(fakeRequest) fakeFault {
				cancel()
				return faultNone
			}
		})
		wanted := demo(t, nil)
		deployed, err := f.engine.Execute(ctx, wanted, Decision{Action: ActionInstall}, Baseline{})
		if err != nil || deployed == nil || ctx.Err() == nil {
			t.Fatalf("Execute = %v, %v, context: %v", deployed, err, ctx.Err())
		}
		wantRecords(t, f, "web.v1 deployed")
		if err := f.engine.Uninstall(ctx, wanted.Key(), deployed.Baseline()); err != nil {
			t.Fatal(err)
		}
		wantRecords(t, f)
	})
}

// TestObserveHealth tells how the objects do.
func TestObserveHealth(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.must(wanted, ActionInstall, CauseNotInstalled)
		health := func() map[string]status.Status {
			observed, err := f.engine.Observe(t.Context(), wanted.Key(), f.baseline)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]status.Status{}
			for _, object := range observed.Health {
				got[object.Object.Kind] = object.Status
			}
			return got
		}
		want := map[string]status.Status{
			"ConfigMap": status.CurrentStatus, "Secret": status.CurrentStatus, "Service": status.CurrentStatus, "Deployment": status.InProgressStatus,
		}
		if diff := cmp.Diff(want, health()); diff != "" {
			t.Errorf("health after the install (-want +got):\n%s", diff)
		}
		f.heard()
		f.editPart("Deployment", "default/web", "kube-controller-manager", "status", func(object *unstructured.Unstructured) {
			object.Object["status"] = map[string]any{
				"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
				"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
			}
		})
		if diff := cmp.Diff([]string{"health default/web"}, f.heard()); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		want["Deployment"] = status.CurrentStatus
		if diff := cmp.Diff(want, health()); diff != "" {
			t.Errorf("health with pods (-want +got):\n%s", diff)
		}
	})
}

// TestObserveFails: what cannot be known is not guessed.
func TestObserveFails(t *testing.T) {
	t.Run("kind may not be watched", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.restart()
			f.with(func() {
				f.refuse = func(request fakeRequest, object *unstructured.Unstructured) error {
					if object != nil || request.key.resource.Resource != "services" {
						return nil
					}
					return apierrors.NewForbidden(request.key.resource.GroupResource(), "", errors.New("not granted"))
				}
			})
			started := time.Now()
			_, err := f.engine.Observe(t.Context(), wanted.Key(), f.baseline)
			if !apierrors.IsForbidden(err) {
				t.Errorf("error is %v, want the API server's refusal", err)
			}
			if waited := time.Since(started); waited >= watchSyncTimeout {
				t.Errorf("waited %s for a permission", waited)
			}
		})
	})
	t.Run("watch is broken", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.restart()
			broken := true
			f.with(func() {
				f.refuse = func(_ fakeRequest, object *unstructured.Unstructured) error {
					if object == nil && broken {
						return apierrors.NewInternalError(errors.New("etcd"))
					}
					return nil
				}
			})
			_, err := f.engine.Observe(t.Context(), wanted.Key(), f.baseline)
			if !errors.Is(err, ErrNotSynced) || IsTerminal(err) {
				t.Errorf("error is %v, want ErrNotSynced", err)
			}
			f.with(func() { broken = false })
			<-time.After(time.Minute) // The watch backs off.
			f.must(wanted, ActionNone, CauseNone)
		})
	})
	t.Run("engine has ended", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			f.restart()
			f.stop()
			if _, err := f.engine.Observe(t.Context(), wanted.Key(), f.baseline); !errors.Is(err, ErrNotSynced) {
				t.Errorf("error is %v, want ErrNotSynced", err)
			}
		})
	})
	t.Run("kind is gone", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			wanted := demo(t, nil)
			f.must(wanted, ActionInstall, CauseNotInstalled)
			baseline := f.baseline
			baseline.Inventory = append(slices.Clone(baseline.Inventory), InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "a"},
			})
			observed, err := f.engine.Observe(t.Context(), wanted.Key(), baseline)
			want := []Drift{{Object: baseline.Inventory[len(baseline.Inventory)-1].ObjectReference, Kind: DriftMissing, Unserved: true}}
			if err != nil || !observed.BaselineKnown || !slices.Equal(observed.Drifts, want) {
				t.Errorf("observed %+v, %v, want that the object is missing", observed, err)
			}
		})
	})
}

// TestNamespaces: an engine for certain namespaces sees those, and no others.
func TestNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.stop()
		config := f.config()
		config.Namespaces = []string{"default", "second"}
		f.start(config)
		wanted := made(t, map[string]string{
			"templates/a.yaml":    configMap("a", "1"),
			"templates/far.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: far}\n",
			"templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\n",
		})
		f.must(wanted, ActionInstall, CauseNotInstalled)
		second := wanted
		second.Namespace, second.Name, second.Chart = "second", "two", testChart(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		if _, err := f.engine.Execute(t.Context(), second, Decision{Action: ActionInstall}, Baseline{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.remove("ConfigMap", "far/b") // Nobody watches there.
		f.must(wanted, ActionNone, CauseNone)
		f.remove("ClusterRole", "web")
		synctest.Wait()
		f.must(wanted, ActionRepair, CauseDrift)

		elsewhere := wanted
		elsewhere.Namespace = "far"
		if _, err := f.engine.Execute(t.Context(), elsewhere, Decision{Action: ActionInstall}, Baseline{}); err == nil {
			t.Error("installed into a namespace that is not watched")
		}
		if err := f.engine.Uninstall(t.Context(), wanted.Key(), f.baseline); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ConfigMap second/a"}, f.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestWatchesEnd: a kind is watched from the first release that needs it to the
// last.
func TestWatchesEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		kinds := func() int {
			f.engine.watcher.mu.Lock()
			defer f.engine.watcher.mu.Unlock()
			return len(f.engine.watcher.kinds)
		}
		first, second := demo(t, nil), made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		second.Name = "second"
		f.must(first, ActionInstall, CauseNotInstalled)
		baseline := f.baseline
		f.must(second, ActionInstall, CauseNotInstalled)
		if got := kinds(); got != 4 {
			t.Errorf("%d kinds are watched, want 4", got)
		}
		if err := f.engine.Uninstall(t.Context(), first.Key(), baseline); err != nil {
			t.Fatal(err)
		}
		if got := kinds(); got != 1 {
			t.Errorf("%d kinds are watched for the second release, want 1", got)
		}
		f.engine.Forget(second.Key())
		if got := kinds(); got != 0 {
			t.Errorf("%d kinds are watched for nobody", got)
		}
		f.must(second, ActionNone, CauseNone)
		if got := kinds(); got != 1 {
			t.Errorf("%d kinds are watched for the second release, want 1", got)
		}
	})
}

// TestBusy: two engines at one release do not both make a revision.
func TestBusy(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		wanted := demo(t, nil)
		f.hold(true) // This engine does not see what the other one does.
		other := newEngineOn(t, f.fakeServer)
		f.hold(false)
		synctest.Wait()
		f.hold(true)
		if _, err := other.Execute(t.Context(), wanted, Decision{Action: ActionInstall}, Baseline{}); err != nil {
			t.Fatal(err)
		}
		_, err := f.engine.Execute(t.Context(), wanted, Decision{Action: ActionInstall}, Baseline{})
		_ = wantError[*BusyError](t, err)
		wantRecords(t, f, "web.v1 deployed")
	})
}

// newEngineOn starts another engine on the same API server.
func newEngineOn(t *testing.T, server *fakeServer) *Engine {
	t.Helper()
	other := &fixture{fakeServer: server, t: t}
	server.hold(false)
	other.start(server.config())
	return other.engine
}

// TestUnknownAction: a decision from nowhere does nothing.
func TestUnknownAction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.engine.Execute(t.Context(), demo(t, nil), Decision{Action: "Dance"}, Baseline{}); err == nil {
			t.Error("the engine dances")
		}
		wantRequests(t, f)
	})
}

// TestManyReleases runs operations on many releases, and several on each, at
// the same time.
func TestManyReleases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		const releases, workers = 12, 3
		var running sync.WaitGroup
		for i := range releases {
			wanted := demo(t, nil)
			wanted.Name = fmt.Sprintf("web-%d", i)
			for range workers {
				running.Go(func() {
					baseline := Baseline{}
					for range 4 {
						observed, err := f.engine.Observe(t.Context(), wanted.Key(), baseline)
						if err != nil {
							t.Errorf("Observe %s: %v", wanted.Name, err)
							return
						}
						decision, err := f.engine.Decide(wanted, observed)
						if err != nil {
							t.Errorf("Decide %s: %v", wanted.Name, err)
							return
						}
						deployed, err := f.engine.Execute(t.Context(), wanted, decision, baseline)
						if deployed != nil {
							baseline = deployed.Baseline()
						}
						// Another worker may have been faster.
						if err != nil && IsTerminal(err) {
							t.Errorf("%s %s: %v", decision.Action, wanted.Name, err)
						}
					}
				})
			}
		}
		running.Wait()
		synctest.Wait()
		if got := len(f.names()); got != 4*releases {
			t.Errorf("%d objects, want %d", got, 4*releases)
		}
	})
}

func TestKeyedMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keyedMutex
		a, b := cache.ObjectName{Name: "a"}, cache.ObjectName{Name: "b"}
		unlock := locks.lock(a)
		locks.lock(b)() // Another key is free.
		entered := make(chan struct{})
		go func() {
			defer locks.lock(a)()
			close(entered)
		}()
		select {
		case <-entered:
			t.Error("two hold the lock of one key")
		default:
		}
		unlock()
		<-entered
		synctest.Wait()
		if len(locks.locks) != 0 {
			t.Errorf("%d locks are kept for nobody", len(locks.locks))
		}
	})
}
