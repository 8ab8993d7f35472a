// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// owned is the embedded chart's release with an owner.
func owned(t *testing.T, values map[string]any) Release {
	t.Helper()
	desired := demo(t, values)
	desired.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "1", Controller: ptr.To(true)}
	return desired
}

// forge changes the content of a record, as those may who may edit Secrets. The labels
// stay as they are.
func (f *fixture) forge(revision int, change func(*releasev1.Release)) {
	f.t.Helper()
	f.edit("Secret", "default/"+recordSecretName("web", revision), "kubectl", func(secret *unstructured.Unstructured) {
		text, _, err := unstructured.NestedString(secret.Object, "data", "release")
		if err != nil {
			f.t.Fatal(err)
		}
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			f.t.Fatal(err)
		}
		rls, _, err := decodeRecord(content, recordSize{64 << 20, 1 << 30})
		if err != nil {
			f.t.Fatal(err)
		}
		change(rls)
		forged, err := json.Marshal(rls)
		if err != nil {
			f.t.Fatal(err)
		}
		setRecord(f.t, secret, zipped(f.t, forged))
	})
	synctest.Wait()
	f.taken()
}

func setRecord(t *testing.T, secret *unstructured.Unstructured, record []byte) {
	t.Helper()
	if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString(record), "data", "release"); err != nil {
		t.Fatal(err)
	}
}

// zipped is content as Helm stores it in a Secret.
func zipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))
}

const (
	forgedHere  = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: forged, namespace: default}\n"
	forgedThere = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: forged, namespace: kube-system}\nspec: {replicas: 1}\n"
)

func addObjects(rls *releasev1.Release) { rls.Manifest += forgedHere + forgedThere }

// assertNothingForged holds that only the embedded chart's objects are there.
func assertNothingForged(t *testing.T, f *fixture) {
	t.Helper()
	want := []string{"ConfigMap default/web", "Deployment default/web", "Secret default/web", "Service default/web"}
	if diff := cmp.Diff(want, f.names()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestForgedManifestIsNotApplied: drift is corrected from the chart when the record of
// the deployed revision was edited.
func TestForgedManifestIsNotApplied(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := owned(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.forge(1, addObjects)
				if restart {
					f.restart()
				}
				f.must(desired, ActionNone, CauseNone)
				f.remove("Service", "default/web")
				synctest.Wait()

				_, err := f.reconcile(desired)

				if err == nil || !strings.Contains(err.Error(), "was changed since") {
					t.Errorf("error is %v", err)
				}
				f.must(desired, ActionInstall, CauseUnverified)
				assertNothingForged(t, f)
				wantRecords(t, f, "web.v1 deployed")
				if manifest := f.record(desired).Manifest; strings.Contains(manifest, "forged") {
					t.Error("the forged manifest is still recorded")
				}
				f.must(desired, ActionNone, CauseNone)
			})
		})
	}
}

// TestForgedRevisionIsNotApplied: a newer record that claims to be the engine's own is
// replaced by one that is made from the chart.
func TestForgedRevisionIsNotApplied(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.foreign(desired, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			addObjects(rls)
			rls.Labels[InputsLabel] = "2" + strings.TrimPrefix(rls.Labels[InputsLabel], "1")
		})
		synctest.Wait()

		f.must(desired, ActionUpgrade, CauseUnverified)

		assertNothingForged(t, f)
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestForgedHooksDoNotRun: an uninstall runs no hook of a record that was edited, and
// removes the release all the same.
func TestForgedHooksDoNotRun(t *testing.T) {
	tests := map[string]func(f *fixture, desired Release){
		"record edited": func(f *fixture, _ Release) {
			f.forge(1, func(rls *releasev1.Release) {
				rls.Hooks = append(rls.Hooks, &releasev1.Hook{
					Name: "forged", Kind: "ConfigMap", Path: "forged.yaml", Events: []releasev1.HookEvent{releasev1.HookPreDelete}, Manifest: forgedHere,
				})
			})
		},
		"revision of others": func(f *fixture, desired Release) {
			f.foreign(desired, 2, common.StatusDeployed, func(rls *releasev1.Release) {
				rls.Hooks = append(rls.Hooks, &releasev1.Hook{
					Name: "forged", Kind: "Deployment", Path: "forged.yaml", Events: []releasev1.HookEvent{releasev1.HookPostDelete}, Manifest: forgedThere,
				})
			})
		},
	}
	for name, attack := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := owned(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				attack(f, desired)
				synctest.Wait()
				f.taken()

				if err := f.engine.Uninstall(t.Context(), desired, f.baseline); err != nil {
					t.Fatal(err)
				}

				for _, request := range f.taken() {
					if strings.Contains(request, "forged") {
						t.Errorf("a forged hook was touched: %s", request)
					}
				}
				if diff := cmp.Diff([]string(nil), f.names(), cmpEmpty); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				wantRecords(t, f)
			})
		})
	}
}

// cmpEmpty makes no difference between empty lists.
var cmpEmpty = cmp.Transformer("empty", func(names []string) map[int]string {
	indexed := map[int]string{}
	for i, name := range names {
		indexed[i] = name
	}
	return indexed
})

// TestForgedRevisionIsNotRolledBackTo: only the content that the engine recorded comes
// back.
func TestForgedRevisionIsNotRolledBackTo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		first, second := owned(t, nil), owned(t, map[string]any{"replicaCount": 2})
		f.must(first, ActionInstall, CauseNotInstalled)
		f.must(second, ActionUpgrade, CauseInputsChanged)
		f.forge(1, addObjects)

		err := f.rollback(second, 1)

		if !errors.Is(err, errUnverified) || IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		_ = wantError[*NoSuchRevisionError](t, f.rollback(second, 1))
		assertNothingForged(t, f)
		if f.snapshot(second).Verifies(1) {
			t.Error("revision 1 is still relied on")
		}
		f.must(second, ActionNone, CauseNone)
	})
}

// TestForgedRollbackIsNotCompleted: the record of a rollback to a revision that was changed
// as well is followed by an upgrade, at once.
func TestForgedRollbackIsNotCompleted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.foreign(desired, 2, common.StatusPendingRollback, func(rls *releasev1.Release) {
			inputs := strings.TrimPrefix(rls.Labels[InputsLabel], "1")
			rls.Labels[InputsLabel] = "2" + inputs
			rls.Labels[RollbackLabel] = "2-1" + inputs[:strings.LastIndex(inputs, "-")]
		})
		f.forge(1, addObjects)

		_, err := f.reconcile(desired)

		if !errors.Is(err, errUnverified) || IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
		f.must(desired, ActionUpgrade, CauseInterrupted)
		assertNothingForged(t, f)
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestRecordOfAnotherPlace: a record is that of its Secret's name and namespace, whatever
// its content says.
func TestRecordOfAnotherPlace(t *testing.T) {
	tests := map[string]func(*releasev1.Release){
		"namespace": func(rls *releasev1.Release) { rls.Namespace = "kube-system" },
		"name":      func(rls *releasev1.Release) { rls.Name = "other" },
		"revision":  func(rls *releasev1.Release) { rls.Version = 7 },
		"no info":   func(rls *releasev1.Release) { rls.Info = nil },
		"null hook": func(rls *releasev1.Release) { rls.Hooks = []*releasev1.Hook{nil} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := owned(t, nil)
				f.must(desired, ActionInstall, CauseNotInstalled)
				f.forge(1, change)
				f.restart()

				f.must(owned(t, map[string]any{"replicaCount": 2}), ActionUpgrade, CauseInputsChanged)

				assertNothingForged(t, f)
				wantRecords(t, f, "web.v1 superseded", "web.v2 deployed")
				if rls := f.record(desired); rls.Namespace != "default" || rls.Name != "web" || rls.Version != 2 {
					t.Errorf("the record is that of %s/%s v%d", rls.Namespace, rls.Name, rls.Version)
				}
			})
		})
	}
}

// TestForgedInventory: the engine deletes no object that the baseline alone calls the
// release's.
func TestForgedInventory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		here := f.edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
		there := f.edit("ConfigMap", "kube-system/theirs", "kubectl", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{managedByLabel: managedByHelm})
			object.SetAnnotations(map[string]string{releaseNameAnnotation: "web", releaseNamespaceAnnotation: "default"})
		})
		synctest.Wait()
		baseline := Baseline{Revision: 3}
		for _, object := range []*unstructured.Unstructured{here, there} {
			baseline.Inventory = append(baseline.Inventory, InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: object.GetNamespace(), Name: object.GetName()},
				UID:             object.GetUID(),
			})
		}

		if err := f.engine.Uninstall(t.Context(), desired, baseline); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]string{"ConfigMap default/theirs", "ConfigMap kube-system/theirs"}, f.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestReleaseOfAnotherOwner: a release of an owner of another kind is not touched, and one
// that others made only if it is to be adopted.
func TestReleaseOfAnotherOwner(t *testing.T) {
	tests := map[string]func(f *fixture){
		"of another kind": func(f *fixture) {
			other := owned(f.t, nil)
			other.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Site", Name: "web", UID: "2", Controller: ptr.To(true)}
			f.must(other, ActionInstall, CauseNotInstalled)
		},
		"made by others": func(f *fixture) {
			f.must(demo(f.t, nil), ActionInstall, CauseNotInstalled)
			f.forge(1, func(*releasev1.Release) {})
			f.edit("Secret", "default/"+recordSecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
				labels := secret.GetLabels()
				maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "engine.") })
				secret.SetLabels(labels)
			})
		},
	}
	for name, install := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				install(f)
				f.baseline = Baseline{}
				f.restart()
				f.taken()
				desired := owned(t, map[string]any{"replicaCount": 5})

				decision, err := f.reconcile(desired)

				conflict := wantError[*OwnershipConflictError](t, err)
				if decision.Action != ActionRefuse || decision.Cause != CauseOtherOwner || conflict.Object.Kind != "Release" {
					t.Errorf("decided on %s (%s), conflict over %s", decision.Action, decision.Cause, conflict.Object)
				}
				_ = wantError[*OwnershipConflictError](t, f.engine.Uninstall(t.Context(), desired, f.baseline))
				wantRequests(t, f)
				assertNothingForged(t, f)
				wantRecords(t, f, "web.v1 deployed")

				desired.Adopt = true
				if name == "of another kind" {
					_, err := f.reconcile(desired)
					conflict := wantError[*OwnershipConflictError](t, err)
					if conflict.Holder != "a Site" {
						t.Errorf("the holder is %s", conflict.Holder)
					}
					return
				}
				f.must(desired, ActionUpgrade, CauseReleaseChanged)
				desired.Adopt = false
				f.must(desired, ActionNone, CauseNone)
				assertNothingForged(t, f)
			})
		})
	}
}

// TestUnverifiedNamesDoNotBlock: what a changed record names that cannot be looked for,
// or is not the release's, keeps no release from being uninstalled.
func TestUnverifiedNamesDoNotBlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
		f.forge(1, func(rls *releasev1.Release) {
			for _, name := range []string{`""`, `"a/b"`, `".."`, strings.Repeat("x", 300), "theirs", "none"} {
				rls.Manifest += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
			}
			rls.Manifest += "---\napiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: a}\n"
		})
		f.restart()

		if err := f.engine.Uninstall(t.Context(), desired, f.baseline); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]string{"ConfigMap default/theirs"}, f.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		wantRecords(t, f)
	})
}

// TestForgedRevisionWithoutPredecessor: a forged record whose number leaves a gap is
// followed by the next revision.
func TestForgedRevisionWithoutPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.foreign(desired, 7, common.StatusDeployed, func(rls *releasev1.Release) {
			addObjects(rls)
			rls.Labels[InputsLabel] = "7" + strings.TrimPrefix(rls.Labels[InputsLabel], "1")
		})
		synctest.Wait()

		f.must(desired, ActionUpgrade, CauseUnverified)

		wantRecords(t, f, "web.v1 superseded", "web.v7 superseded", "web.v8 deployed")
		assertNothingForged(t, f)
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestMarkedRevisionIsReliedOn: to mark a revision as failed does not take from its
// record that it may be relied on.
func TestMarkedRevisionIsReliedOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.must(desired, ActionNone, CauseNone)

		if err := f.engine.MarkFailed(t.Context(), desired, f.baseline, 1, "Not healthy in time"); err != nil {
			t.Fatal(err)
		}

		f.must(desired, ActionNone, CauseNone)
		f.restart()
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestUnverifiedRecordsAreBounded: however many records are forged, an operation keeps no
// more of them than of one.
func TestUnverifiedRecordsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		for revision := 2; revision <= 6; revision++ {
			f.foreign(desired, revision, common.StatusFailed, func(rls *releasev1.Release) {
				rls.Config = map[string]any{"numbers": make([]int, maxUnverifiedNodes-8_000)}
			})
		}
		synctest.Wait()
		s := f.open(desired)

		read := 0
		for revision := 2; revision <= 6; revision++ {
			rls, err := s.read(revision)
			if err != nil {
				t.Fatal(err)
			}
			if rls != nil {
				read++
			}
		}

		if read != 1 {
			t.Errorf("%d forged records are kept, want 1", read)
		}
		f.must(desired, ActionUpgrade, CauseReleaseChanged)
		assertNothingForged(t, f)
	})
}

// TestOwnerCreatedAgain: an owner of the same kind and name takes over the release of
// its predecessor.
func TestOwnerCreatedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(owned(t, nil), ActionInstall, CauseNotInstalled)
		f.baseline = Baseline{}
		f.restart()
		desired := owned(t, nil)
		desired.Owner.UID = "another"

		f.must(desired, ActionUpgrade, CauseInputsChanged)

		if controller := metav1.GetControllerOf(f.object("Service", "default/web")); controller == nil || controller.UID != "another" {
			t.Errorf("the Service belongs to %v", controller)
		}
		f.must(desired, ActionNone, CauseNone)
	})
}

// TestRecordsThatCannotBeRead: a record that is a bomb, or no record at all, is replaced,
// and the release can be uninstalled.
func TestRecordsThatCannotBeRead(t *testing.T) {
	tests := map[string][]byte{
		"no base64":      []byte("%"),
		"no gzip":        []byte(base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 8, 1, 2, 3})),
		"no JSON":        zipped(t, []byte("{")),
		"a bomb":         zipped(t, make([]byte, 100<<20)),
		"too many nodes": zipped(t, []byte(`{"config":{"a":[`+strings.Repeat("0,", 1<<20)+`0]}}`)),
		"null":           zipped(t, []byte("null")),
	}
	for name, record := range tests {
		for _, uninstalls := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fixture) {
					desired := owned(t, nil)
					f.must(desired, ActionInstall, CauseNotInstalled)
					f.edit("Secret", "default/"+recordSecretName("web", 1), "kubectl", func(secret *unstructured.Unstructured) {
						setRecord(t, secret, record)
					})
					f.restart()
					if uninstalls {
						if err := f.engine.Uninstall(t.Context(), desired, f.baseline); err != nil {
							t.Fatal(err)
						}
						wantRecords(t, f)
						return
					}
					f.remove("Service", "default/web")
					synctest.Wait()
					if _, err := f.reconcile(desired); err == nil {
						t.Error("repaired from a record that cannot be read")
					}
					f.must(desired, ActionInstall, CauseUnverified)
					wantRecords(t, f, "web.v1 deployed")
					assertNothingForged(t, f)
				})
			})
		}
	}
}

// TestScope: a release has objects in its own namespace only, unless it may have others.
func TestScope(t *testing.T) {
	const there = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n"
	tests := map[string]map[string]string{
		"object in another namespace": {"templates/b.yaml": there},
		"object in no namespace":      {"templates/b.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: b}\n"},
		"object in a List":            {"templates/b.yaml": "apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}\n"},
		"hook": {
			"templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other, annotations: {helm.sh/hook: pre-delete}}\n",
		},
		"file under crds/": {"crds/b.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: b}\n"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				files["templates/a.yaml"] = configMap("a", "1")
				desired := made(t, files)
				desired.Scope = ScopeNamespace

				_, err := f.reconcile(desired)

				_ = wantError[*OutOfScopeError](t, err)
				if !IsTerminal(err) {
					t.Error("the error is not terminal")
				}
				wantRequests(t, f)
				wantRecords(t, f)
			})
		})
	}
}

// TestGuard: requests beyond the bounds do not leave the process.
func TestGuard(t *testing.T) {
	namespaced := bounds{namespace: "a", scope: ScopeNamespace}
	clusterWide := bounds{namespace: "a", scope: ScopeCluster}
	tests := []struct {
		method, path string
		within       *bounds
		namespaces   []string
		allowed      bool
	}{
		{"PATCH", "/api/v1/namespaces/a/configmaps/x", &namespaced, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &namespaced, nil, false},
		{"GET", "/api/v1/namespaces/b/secrets/x", &namespaced, nil, false},
		{"DELETE", "/apis/apps/v1/namespaces/b/deployments/x", &namespaced, nil, false},
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &namespaced, nil, false},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &namespaced, nil, true},
		{"DELETE", "/api/v1/namespaces/a", &namespaced, nil, false},
		{"PUT", "/api/v1/namespaces/a/finalize", &namespaced, nil, false},
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &clusterWide, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &clusterWide, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &clusterWide, []string{"a"}, false},
		{"GET", "/api/v1/namespaces/b/configmaps/x", nil, []string{"a"}, false},
		{"GET", "/api/v1/namespaces/b/configmaps", nil, nil, true},
		{"PATCH", "/api/v1/namespaces/a/configmaps/x", nil, nil, false},
		{"GET", "/version", nil, []string{"a"}, true},
		{"POST", "/proxy/api/v1/namespaces/a/secrets", &namespaced, nil, true},
		{"POST", "/proxy/api/v1/namespaces/b/secrets", &namespaced, nil, false},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			sent := false
			g := &guard{root: "/proxy", namespaces: test.namespaces, next: roundTripper(func(*http.Request) (*http.Response, error) {
				sent = true
				return &http.Response{Body: http.NoBody}, nil
			})}
			ctx := t.Context()
			if test.within != nil {
				within := *test.within
				within.namespaces = test.namespaces
				ctx = withBounds(ctx, within)
			}
			request, err := http.NewRequestWithContext(ctx, test.method, "http://server"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}

			response, err := g.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}

			if (err == nil) != test.allowed || sent != test.allowed {
				t.Errorf("error %v, sent %t, want allowed: %t", err, sent, test.allowed)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
