// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// owned is the embedded chart's release with an owner.
func owned(t *testing.T, values map[string]any) Release {
	t.Helper()
	desired := demo(t, values)
	desired.Owner = &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "App", Name: "web", UID: "1", Controller: ptr.To(true)}
	return desired
}

// bubbleWithOwned runs a test in a bubble, in which the embedded chart is installed as a
// release with an owner.
func bubbleWithOwned(t *testing.T, test func(t *testing.T, f *fixture, desired Release)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		test(t, f, desired)
	})
}

// claimRevision forges the label by which a record claims that the engine made its
// revision.
func claimRevision(rls *releasev1.Release) {
	_, inputs, _ := strings.Cut(rls.Labels[record.InputsLabel], "-")
	rls.Labels[record.InputsLabel] = fmt.Sprintf("%d-%s", rls.Version, inputs)
}

// forge changes the content of a record, as those may who may edit Secrets. The labels
// stay as they are.
func (f *fixture) forge(revision int, change func(*releasev1.Release)) {
	f.t.Helper()
	f.Edit("Secret", "default/"+record.SecretName("web", revision), "kubectl", func(secret *unstructured.Unstructured) {
		text, _, err := unstructured.NestedString(secret.Object, "data", "release")
		if err != nil {
			f.t.Fatal(err)
		}
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			f.t.Fatal(err)
		}
		rls, _, err := record.Decode(content, record.Size{Bytes: 64 << 20, Nodes: 1 << 30})
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
	f.TakeRequests()
}

func setRecord(t *testing.T, secret *unstructured.Unstructured, record []byte) {
	t.Helper()
	if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString(record), "data", "release"); err != nil {
		t.Fatal(err)
	}
}

// zipped returns content in Helm's format of a Secret.
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
	if diff := cmp.Diff(want, f.Names()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestForgedManifestIsNotApplied: drift is corrected from the chart when the record of
// the deployed revision was edited.
func TestForgedManifestIsNotApplied(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
				f.forge(1, addObjects)
				if restart {
					f.restart()
				}
				f.must(desired, ActionNone, CauseNone)
				f.Remove("Service", "default/web")
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

// TestForgedRevisionIsNotApplied: a newer record that pretends to be the engine's is replaced by a
// new revision from the chart.
func TestForgedRevisionIsNotApplied(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		f.foreign(desired, 2, common.StatusDeployed, func(rls *releasev1.Release) {
			addObjects(rls)
			claimRevision(rls)
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
			bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
				attack(f, desired)
				synctest.Wait()
				f.TakeRequests()

				f.uninstall(desired)

				for _, request := range f.TakeRequests() {
					if strings.Contains(request, "forged") {
						t.Errorf("a forged hook was touched: %s", request)
					}
				}
				if diff := cmp.Diff([]string(nil), f.Names(), cmpEmpty); diff != "" {
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
		if f.observe(second).Verifies(1) {
			t.Error("revision 1 is still relied on")
		}
		f.must(second, ActionNone, CauseNone)
	})
}

// TestForgedRollbackIsNotCompleted: the record of a rollback to a revision that was changed
// as well is followed by an upgrade, at once.
func TestForgedRollbackIsNotCompleted(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		f.foreign(desired, 2, common.StatusPendingRollback, func(rls *releasev1.Release) {
			claimRevision(rls)
			_, inputs, _ := strings.Cut(rls.Labels[record.InputsLabel], "-")
			rls.Labels[record.RollbackLabel] = "2-1-" + inputs[:strings.LastIndex(inputs, "-")]
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

// TestForgedInventory: the engine deletes no object that the baseline alone calls the
// release's.
func TestForgedInventory(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := owned(t, nil)
		here := f.Edit("ConfigMap", "default/theirs", "kubectl", func(*unstructured.Unstructured) {})
		there := f.Edit("ConfigMap", "kube-system/theirs", "kubectl", func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{manifest.ManagedByLabel: manifest.ManagedByHelm})
			object.SetAnnotations(map[string]string{manifest.ReleaseNameAnnotation: "web", manifest.ReleaseNamespaceAnnotation: "default"})
		})
		synctest.Wait()
		baseline := Baseline{Revision: 3}
		for _, object := range []*unstructured.Unstructured{here, there} {
			baseline.Inventory = append(baseline.Inventory, InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: object.GetNamespace(), Name: object.GetName()},
				UID:             object.GetUID(),
			})
		}

		if _, err := f.engine.Uninstall(t.Context(), desired, baseline); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff([]string{"ConfigMap default/theirs", "ConfigMap kube-system/theirs"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestForgedRevisionWithoutPredecessor: a forged record whose number leaves a gap is
// followed by the next revision.
func TestForgedRevisionWithoutPredecessor(t *testing.T) {
	bubbleWithOwned(t, func(t *testing.T, f *fixture, desired Release) {
		f.foreign(desired, 7, common.StatusDeployed, func(rls *releasev1.Release) {
			addObjects(rls)
			claimRevision(rls)
		})
		synctest.Wait()

		f.must(desired, ActionUpgrade, CauseUnverified)

		wantRecords(t, f, "web.v1 superseded", "web.v7 superseded", "web.v8 deployed")
		assertNothingForged(t, f)
		f.must(desired, ActionNone, CauseNone)
	})
}
