// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// upstream has the objects that an upstream operator leaves of the Memcached default/a.
type upstream struct {
	// manager is the name of the operator's binary.
	manager string
	// finalizers are the finalizers of the Memcached.
	finalizers []string
	// conditions are the conditions of the Memcached, as "Type Status Reason".
	conditions []string
	// release is the name of the release. The default is the name of the Memcached.
	release string
	// statuses are the statuses of the release's revisions. The default is one deployed revision.
	statuses []string
	// annotations are the annotations of the Memcached.
	annotations []string
	// unmarked says that the records do not name the Memcached.
	unmarked bool
}

// operatorSDK is a release of operator-sdk's helm-operator.
var operatorSDK = upstream{
	manager: "helm-operator", finalizers: []string{prefix + "uninstall-release"},
	conditions: []string{"Initialized True ", "Deployed True InstallSuccessful", "Irreconcilable True ReconcileError"},
}

// earlySDK is a release of an early version of operator-sdk's helm-operator, which names the owner
// on the objects only.
var earlySDK = upstream{manager: "helm-operator", finalizers: operatorSDK.finalizers, conditions: operatorSDK.conditions, unmarked: true}

// plugins is a release of an operator on helm-operator-plugins.
var plugins = upstream{
	manager: "manager", finalizers: []string{"uninstall-helm-release"},
	conditions: []string{
		"Deployed True UpgradeSuccessful", "Initialized True ", "Irreconcilable False ", "Paused False ", "ReleaseFailed True UpgradeError",
	},
}

// leave creates the objects of the upstream operator, while the kind is not watched, and forgets the requests.
func (w *world) leave(left upstream) {
	w.t.Helper()
	w.Edit("Memcached", "default/a", "kubectl", func(object *unstructured.Unstructured) {
		object.Object["spec"] = map[string]any{"size": int64(3)}
		annotate(object, left.annotations...)
	})
	w.Edit("Memcached", "default/a", left.manager, func(object *unstructured.Unstructured) { object.SetFinalizers(left.finalizers) })
	name := left.releaseName()
	w.EditSubresource("Memcached", "default/a", left.manager, "status", func(object *unstructured.Unstructured) {
		object.Object["status"] = map[string]any{
			"conditions": left.upstreamConditions(), "deployedRelease": map[string]any{"name": name, "manifest": upstreamManifest(name)},
		}
	})
	w.leaveRelease(left)
	w.Settle()
	w.TakeRequests()
}

// leaveRelease creates the records and the object of a release.
func (w *world) leaveRelease(left upstream) {
	w.t.Helper()
	name := left.releaseName()
	owner := *metav1.NewControllerRef(w.Object("Memcached", "default/a"), memcached)
	w.Edit("ConfigMap", "default/"+name, left.manager, func(object *unstructured.Unstructured) {
		object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
		object.SetAnnotations(map[string]string{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "default"})
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		object.Object["data"] = map[string]any{"size": "3", "image": "none"}
	})
	statuses := left.statuses
	if len(statuses) == 0 {
		statuses = []string{"deployed"}
	}
	for i, status := range statuses {
		revision := i + 1
		w.Edit("Secret", fmt.Sprintf("default/sh.helm.release.v1.%s.v%d", name, revision), left.manager, func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{
				"owner": "helm", "name": name, "version": strconv.Itoa(revision), "status": status,
				"createdAt": strconv.FormatInt(time.Now().Unix(), 10),
			})
			if !left.unmarked {
				object.SetOwnerReferences([]metav1.OwnerReference{owner})
			}
			object.Object["type"] = "helm.sh/release.v1"
			object.Object["data"] = map[string]any{"release": upstreamRecord(w.t, name, revision, status)}
		})
	}
}

func (u upstream) releaseName() string {
	if u.release == "" {
		return "a"
	}
	return u.release
}

// upstreamConditions returns conditions without observedGeneration, and a condition of another
// client.
func (u upstream) upstreamConditions() []any {
	found := []any{}
	for _, condition := range append(slices.Clone(u.conditions), "Backed True Nightly") {
		parts := strings.Split(condition, " ")
		found = append(found, map[string]any{
			"type": parts[0], "status": parts[1], "reason": parts[2], "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	return found
}

// upstreamManifest is the manifest of a release, as Helm 3 renders the chart.
func upstreamManifest(name string) string {
	return "---\n# Source: memcached/templates/configmap.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name +
		"\n  labels:\n    app.kubernetes.io/managed-by: Helm\ndata:\n  size: \"3\"\n  image: \"none\"\n"
}

// upstreamRecord encodes a revision as Helm 3 does. The result is the text of a Secret's data.
func upstreamRecord(t *testing.T, name string, revision int, status string) string {
	t.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	content, err := json.Marshal(map[string]any{
		"name": name, "namespace": "default", "version": revision, "manifest": upstreamManifest(name), "config": map[string]any{"size": 3},
		"info": map[string]any{"first_deployed": at, "last_deployed": at, "deleted": "", "description": "Install complete", "status": status},
		"chart": map[string]any{
			"metadata":  map[string]any{"apiVersion": "v2", "name": "memcached", "version": "1.0.0"},
			"templates": []any{map[string]any{"name": "templates/configmap.yaml", "data": []byte(configMap)}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(compressed.Bytes())
	return base64.StdEncoding.EncodeToString([]byte(encoded))
}

// watch starts to watch the kind.
func (w *world) watch(kind watches.ReleaseKind) {
	w.t.Helper()
	expect.NoError(w.t, w.manager.Update(kind))
	w.Settle()
}

// release returns status.deployedRelease of the Memcached.
func (w *world) release() map[string]any {
	w.t.Helper()
	deployed, _, err := unstructured.NestedMap(w.Object("Memcached", "default/a").Object, "status", "deployedRelease")
	expect.NoError(w.t, err)
	return deployed
}

// taken is status.deployedRelease after a takeover.
func taken(name string, revision int64) map[string]any {
	return map[string]any{"name": name, "revision": revision, "chart": "memcached", "chartVersion": "1.0.0"}
}

// settled are the conditions of a Memcached after the takeover, with a condition of another client.
var settled = []string{
	"Backed True Nightly", "Deployed True UpgradeSuccessful", "Initialized True ChartLoaded", "Irreconcilable False Reconciled", "Ready True Healthy",
}

// TestTakeover takes over the release and the custom resource of both upstream operators, without a
// reinstall.
func TestTakeover(t *testing.T) {
	for name, left := range map[string]upstream{"operator-sdk": operatorSDK, "early operator-sdk": earlySDK, "helm-operator-plugins": plugins} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(w *world) {
				w.leave(left)
				w.EditSubresource("Memcached", "default/a", "other", "status", func(object *unstructured.Unstructured) {
					expect.NoError(w.t, unstructured.SetNestedField(object.Object, "mine", "status", "note"))
				})
				before := w.Object("ConfigMap", "default/a")

				w.watch(caches(t))

				after := w.Object("ConfigMap", "default/a")
				expect.Equal(w.t, "UID", before.GetUID(), after.GetUID())
				expect.Equal(w.t, "data", before.Object["data"], after.Object["data"])
				expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
				expect.Equal(w.t, "finalizers", []string{prefix + "uninstall-release"}, w.Object("Memcached", "default/a").GetFinalizers())
				expect.Equal(w.t, "deployed release", taken("a", 2), w.release())
				expect.Equal(w.t, "conditions", settled, w.conditions("default/a"))
				expect.Equal(w.t, "field of another client", "mine", w.field("Memcached", "default/a", "status", "note"))
				w.TakeRequests()
				w.Stop()
				w.start(caches(t))
				expect.Equal(w.t, "writes after a restart", []string(nil), w.writes())
				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "objects", []string{}, w.Names())
				expect.Equal(w.t, "records", []string{}, w.HelmRecords())
			})
		})
	}
}

// writes returns the requests that are no lists since the last call.
func (w *world) writes() []string {
	var writes []string
	for _, request := range w.TakeRequests() {
		if !strings.HasPrefix(request, "list ") {
			writes = append(writes, request)
		}
	}
	return writes
}

// TestTakeoverKeepsManifest: with the option, the status has the manifest of the new revision.
func TestTakeoverKeepsManifest(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.leave(operatorSDK)
		kind := caches(t)
		kind.StatusManifest = true

		w.watch(kind)

		manifest := w.field("Memcached", "default/a", "status", "deployedRelease", "manifest")
		expect.Contains(w.t, "manifest", manifest, "kind: ConfigMap", "ownerReferences")
	})
}

// TestTakeoverRemovesManifestAfterFailure: the removal of the manifest from the status is repeated
// when it fails, also by the next process.
func TestTakeoverRemovesManifestAfterFailure(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			bubble(t, nil, func(w *world) {
				w.leave(operatorSDK)
				failing := true
				w.With(func() {
					w.Fault = func(request fakeapi.Request) fakeapi.Fault {
						if failing && request.String() == "patch memcacheds/status default/a" {
							return fakeapi.FailBefore
						}
						return fakeapi.NoFault
					}
				})
				w.watch(caches(t))
				expect.Contains(w.t, "manifest", w.field("Memcached", "default/a", "status", "deployedRelease", "manifest"), "ConfigMap")
				w.With(func() { failing = false })

				if restart {
					w.Stop()
					w.start(caches(t))
				}
				w.Wait(time.Hour)

				expect.Equal(w.t, "deployed release", taken("a", 2), w.release())
				expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
			})
		})
	}
}

// uuid is the UID of the Memcached in tests of releases that are named after it.
const uuid types.UID = "6ff7b4b9-0ba1-4cb3-9d1a-8b0f7a4c2d11"

// withUUID gives Memcacheds a UID as the API server makes it.
func (w *world) withUUID() {
	w.With(func() {
		w.React = func(object *unstructured.Unstructured) bool {
			if object.GetKind() != "Memcached" || object.GetUID() == uuid {
				return false
			}
			object.SetUID(uuid)
			return true
		}
	})
}

// TestTakeoverOfLegacyName keeps the release name of operator-sdk before 1.0 for all that follows.
func TestTakeoverOfLegacyName(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.withUUID()
		left := operatorSDK
		left.release = helm.LegacyReleaseName("a", uuid)
		w.leave(left)
		before := w.Object("ConfigMap", "default/"+left.release)

		w.watch(caches(t))

		expect.Equal(w.t, "UID", before.GetUID(), w.Object("ConfigMap", "default/"+left.release).GetUID())
		expect.Equal(w.t, "deployed release", taken(left.release, 2), w.release())
		w.Edit("ConfigMap", "default/"+left.release, "kubectl", func(object *unstructured.Unstructured) {
			object.Object["data"] = map[string]any{"size": "7"}
		})
		w.Settle()
		expect.Equal(w.t, "data after drift", "3", w.field("ConfigMap", "default/"+left.release, "data", "size"))
		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"size": int64(5)} })
		expect.Equal(w.t, "data after an upgrade", "5", w.field("ConfigMap", "default/"+left.release, "data", "size"))
		w.Stop()
		w.Delete("Memcached", "default/a")
		w.start(caches(t))
		expect.Equal(w.t, "objects", []string{}, w.Names())
		expect.Equal(w.t, "records", []string{}, w.HelmRecords())
	})
}

// TestTakeoverPrefersConfiguredName: a custom resource whose release has its name keeps that
// release, although an older one with the name of operator-sdk before 1.0 was left behind.
func TestTakeoverPrefersConfiguredName(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.withUUID()
		w.leave(operatorSDK)
		older := operatorSDK
		older.release = helm.LegacyReleaseName("a", uuid)
		w.leaveRelease(older)

		w.watch(caches(t))

		expect.Equal(w.t, "deployed release", taken("a", 2), w.release())
		expect.Equal(w.t, "records", []string{older.release + ".v1 deployed", "a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
	})
}

// TestTakeoverOfPendingRelease: an operation that may still run is awaited, and then replaced.
func TestTakeoverOfPendingRelease(t *testing.T) {
	bubble(t, nil, func(w *world) {
		left := operatorSDK
		left.statuses = []string{"deployed", "pending-upgrade"}
		w.leave(left)
		before := w.Object("ConfigMap", "default/a")

		w.watch(caches(t))

		expect.Equal(w.t, "records while the upgrade may run", []string{"a.v1 deployed", "a.v2 pending-upgrade"}, w.HelmRecords())
		w.has("conditions", w.conditions("default/a"), "Ready False ReleaseBusy")
		w.Wait(time.Hour)
		expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		expect.Equal(w.t, "UID", before.GetUID(), w.Object("ConfigMap", "default/a").GetUID())
		expect.Equal(w.t, "conditions", settled, w.conditions("default/a"))
	})
}

// TestTakeoverOfDeletion: a custom resource that was deleted while no operator ran is uninstalled.
func TestTakeoverOfDeletion(t *testing.T) {
	for name, left := range map[string]upstream{"operator-sdk": operatorSDK, "early operator-sdk": earlySDK, "helm-operator-plugins": plugins} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(w *world) {
				w.leave(left)
				w.Delete("Memcached", "default/a")

				w.watch(caches(t))

				expect.Equal(w.t, "objects", []string{}, w.Names())
				expect.Equal(w.t, "records", []string{}, w.HelmRecords())
			})
		})
	}
}

// TestNoTakeoverWhilePaused: a paused custom resource keeps the release of the upstream operator
// until it is resumed.
func TestNoTakeoverWhilePaused(t *testing.T) {
	bubble(t, nil, func(w *world) {
		left := operatorSDK
		left.annotations = []string{"demo.example.com/paused", "true"}
		w.leave(left)
		before := w.Object("ConfigMap", "default/a")

		w.watch(caches(t))

		expect.Equal(w.t, "object", before, w.Object("ConfigMap", "default/a"))
		expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())
		w.has("conditions", w.conditions("default/a"), "Paused True PauseReconcileAnnotationTrue", "Deployed True InstallSuccessful")
		expect.Equal(w.t, "message", "Revision 1 of chart memcached 1.0.0 is deployed", w.message("default/a", "Deployed"))
		w.change("default/a", func(object *unstructured.Unstructured) { annotate(object, "demo.example.com/paused", "false") })
		expect.Equal(w.t, "records", []string{"a.v1 superseded", "a.v2 deployed"}, w.HelmRecords())
		expect.Equal(w.t, "deployed release", taken("a", 2), w.release())
		expect.Equal(w.t, "conditions", settled, w.conditions("default/a"))
	})
}

// TestRefusedTakeoverKeepsDeployed: while the first upgrade is refused, the revision of the upstream operator
// is deployed, also after a restart.
func TestRefusedTakeoverKeepsDeployed(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.leave(operatorSDK)
		w.With(func() {
			w.Validate = func(object *unstructured.Unstructured) error {
				if object.GetKind() == "ConfigMap" && len(object.GetManagedFields()) > 0 {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil)
				}
				return nil
			}
		})

		w.watch(caches(t))

		expect.Equal(w.t, "records", []string{"a.v1 deployed", "a.v2 failed"}, w.HelmRecords())
		w.has("conditions", w.conditions("default/a"), "Deployed True InstallSuccessful", "ReleaseFailed True UpgradeError")
		w.Stop()
		w.start(caches(t))
		w.has("conditions after a restart", w.conditions("default/a"), "Deployed True InstallSuccessful", "ReleaseFailed True UpgradeError")
	})
}

// TestForeignReleasesAreNotTakenOver: a release that belongs to another custom resource is left
// alone, also by a deletion.
func TestForeignReleasesAreNotTakenOver(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.leave(operatorSDK)
		w.Edit("Secret", "default/sh.helm.release.v1.a.v1", "kubectl", func(object *unstructured.Unstructured) {
			object.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: "example.com/v1", Kind: "Site", Name: "a", UID: "other", Controller: ptr.To(true)},
			})
		})
		before := w.Object("ConfigMap", "default/a")

		w.watch(caches(t))

		expect.Contains(w.t, "message", w.message("default/a", "Ready"), "Release default/a exists and belongs to a Site")
		w.Delete("Memcached", "default/a")
		w.Settle()
		expect.Equal(w.t, "object", before, w.Object("ConfigMap", "default/a"))
		expect.Equal(w.t, "records", []string{"a.v1 deployed"}, w.HelmRecords())
	})
}
