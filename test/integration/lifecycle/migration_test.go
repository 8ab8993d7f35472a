// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/upstream"
)

// The finalizers of the upstream operators. The first is also the operator's.
const (
	sdkFinalizer     = "helm.sdk.operatorframework.io/uninstall-release"
	pluginsFinalizer = "uninstall-helm-release"
)

// migrated is a custom resource with a release, and its upstream operator.
type migrated struct {
	upstream.Operator

	kind       schema.GroupVersionKind
	resource   dynamic.ResourceInterface
	finalizer  string
	conditions []any
}

// TestMigrationFromUpstreamAndBack takes over the releases and the custom resources of both
// upstream operators, hands them back, takes them over again, and hands them back for the
// uninstall.
func TestMigrationFromUpstreamAndBack(t *testing.T) {
	namespace := shared.Namespace(t)
	if err := shared.InstallCRDs(t.Context(), "artifacts/kinds/memcached/crd.yaml", "test/integration/lifecycle/testdata/migration/crd.yaml"); err != nil {
		t.Fatal(err)
	}
	err := shared.ApplyFiles(t.Context(), "", "artifacts/kinds/memcached/rbac.yaml", "test/integration/lifecycle/testdata/migration/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached")
	sdk := newMigrated(t, namespace, schema.GroupVersionKind{Group: "cache.my.domain", Version: "v1", Kind: "Memcached"}, "sdk")
	sdk.Binary, sdk.finalizer = "helm-operator", sdkFinalizer
	sdk.conditions = upstreamConditions("Initialized True ", "Deployed True InstallSuccessful", "Irreconcilable True ReconcileError")
	plugins := newMigrated(t, namespace, schema.GroupVersionKind{Group: "migration.example.com", Version: "v1", Kind: "Operand"}, "plugins")
	plugins.Binary, plugins.finalizer = "manager", pluginsFinalizer
	plugins.conditions = upstreamConditions("Initialized True ", "Deployed True UpgradeSuccessful", "Irreconcilable False ", "Paused False ",
		"ReleaseFailed True UpgradeError")
	args := []string{"--watches-file=" + watchesFile(t, chart, sdk, plugins)}
	both := []*migrated{sdk, plugins}
	before := map[*migrated]map[string]string{}
	for _, m := range both {
		m.operate(t, chart, 1)
		before[m] = m.identities(t)
	}

	operator := cluster.StartOperator(t.Context(), t, shared, args...)
	for _, m := range both {
		m.awaitTaken(t, 2)
		m.assertSame(t, before[m])
		m.assertStatus(t, 2)
	}
	operator.Stop()
	for _, m := range both {
		m.operate(t, chart, 2)
		before[m] = m.identities(t)
	}
	operator = cluster.StartOperator(t.Context(), t, shared, append(args, "--status-manifest")...)
	for _, m := range both {
		m.awaitTaken(t, 4)
		m.assertSame(t, before[m])
		if manifest := m.manifest(t); !strings.Contains(manifest, "kind: Deployment") {
			t.Errorf("%s: the manifest in the status is %q", m.Owner.Name, manifest)
		}
	}
	operator.Stop()
	for _, m := range both {
		m.setFinalizer(t)
		m.remove(t)
	}
}

// watchesFile writes a watches.yaml for the kinds, and returns its path.
func watchesFile(t *testing.T, chart string, kinds ...*migrated) string {
	t.Helper()
	var content strings.Builder
	for _, m := range kinds {
		fmt.Fprintf(&content, "- group: %s\n  version: %s\n  kind: %s\n  chart: %s\n", m.kind.Group, m.kind.Version, m.kind.Kind, chart)
	}
	path := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(path, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newMigrated creates a custom resource.
func newMigrated(t *testing.T, namespace string, kind schema.GroupVersionKind, name string) *migrated {
	t.Helper()
	mapping, err := shared.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	m := &migrated{kind: kind, resource: shared.Dynamic.Resource(mapping.Resource).Namespace(namespace)}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec(1)}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	created, err := m.resource.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	m.Namespace, m.Owner = namespace, *metav1.NewControllerRef(created, kind)
	return m
}

// spec is a spec of a custom resource, which has the values of the chart.
func spec(replicas int64) map[string]any { return map[string]any{"replicaCount": replicas} }

// upstreamConditions returns conditions "Type Status Reason" as the upstream operators write them.
func upstreamConditions(conditions ...string) []any {
	var written []any
	for _, condition := range conditions {
		parts := strings.Split(condition, " ")
		written = append(written, map[string]any{
			"type": parts[0], "status": parts[1], "reason": parts[2], "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	return written
}

// operate makes a pass of the upstream operator: finalizer, release and status. It waits until the
// pods are ready.
func (m *migrated) operate(t *testing.T, chart string, replicas int64) {
	t.Helper()
	m.update(t, func(object *unstructured.Unstructured) { object.Object["spec"] = spec(replicas) })
	m.setFinalizer(t)
	manifest := m.Deploy(t.Context(), t, shared, chart, spec(replicas))
	m.update(t, func(object *unstructured.Unstructured) {
		object.Object["status"] = map[string]any{
			"conditions": m.conditions, "deployedRelease": map[string]any{"name": m.Owner.Name, "manifest": manifest},
		}
	}, "status")
	cluster.Eventually(t.Context(), t, "pods of "+m.Owner.Name, func(ctx context.Context) (bool, error) {
		found := m.deployment(ctx, t)
		return found.Status.ObservedGeneration == found.Generation && int64(found.Status.ReadyReplicas) == replicas &&
			found.Status.Replicas == found.Status.ReadyReplicas, nil
	})
}

// setFinalizer replaces the finalizers by the upstream operator's.
func (m *migrated) setFinalizer(t *testing.T) {
	t.Helper()
	m.update(t, func(object *unstructured.Unstructured) { object.SetFinalizers([]string{m.finalizer}) })
}

// update changes the custom resource or a subresource under the name of the upstream operator.
func (m *migrated) update(t *testing.T, change func(*unstructured.Unstructured), subresources ...string) {
	t.Helper()
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		object := m.get(t)
		change(object)
		_, err := m.resource.Update(t.Context(), object, metav1.UpdateOptions{FieldManager: m.Binary}, subresources...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *migrated) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object, err := m.resource.Get(t.Context(), m.Owner.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func (m *migrated) deployment(ctx context.Context, t *testing.T) *appsv1.Deployment {
	t.Helper()
	found, err := shared.Client.AppsV1().Deployments(m.Namespace).Get(ctx, m.Owner.Name+"-memcached", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// identities returns UID and generation of the release's objects and pods.
func (m *migrated) identities(t *testing.T) map[string]string {
	t.Helper()
	identities := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{
		appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("replicasets"),
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"),
		corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	} {
		list, err := shared.Dynamic.Resource(resource).Namespace(m.Namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/instance=" + m.Owner.Name,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			identities[object.GetKind()+" "+object.GetName()] = fmt.Sprintf("%s generation %d", object.GetUID(), object.GetGeneration())
		}
	}
	return identities
}

// assertSame asserts that the takeover replaced no object, changed no workload and restarted no
// pod.
func (m *migrated) assertSame(t *testing.T, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, m.identities(t)); diff != "" {
		t.Errorf("%s: objects (-before +after):\n%s", m.Owner.Name, diff)
	}
}

// awaitTaken waits until the operator has made the revision, and asserts that there is no later
// one.
func (m *migrated) awaitTaken(t *testing.T, revision int64) {
	t.Helper()
	cluster.Eventually(t.Context(), t, fmt.Sprintf("%s at revision %d", m.Owner.Name, revision), func(context.Context) (bool, error) {
		found, _, err := unstructured.NestedInt64(m.get(t).Object, "status", "deployedRelease", "revision")
		return found >= revision, err
	})
	shared.AwaitReady(t.Context(), t, m.Namespace, m.get(t))
	found, _, _ := unstructured.NestedInt64(m.get(t).Object, "status", "deployedRelease", "revision")
	if found != revision {
		t.Errorf("%s: revision %d, want %d", m.Owner.Name, found, revision)
	}
	if finalizers := m.get(t).GetFinalizers(); !slices.Equal(finalizers, []string{sdkFinalizer}) {
		t.Errorf("%s: finalizers %q", m.Owner.Name, finalizers)
	}
}

// assertStatus asserts that nothing of the upstream operator's status is left.
func (m *migrated) assertStatus(t *testing.T, revision int64) {
	t.Helper()
	status, _, err := unstructured.NestedMap(m.get(t).Object, "status")
	if err != nil {
		t.Fatal(err)
	}
	deployed, _, err := unstructured.NestedMap(status, "deployedRelease")
	if err != nil || deployed["name"] != m.Owner.Name || deployed["revision"] != revision || deployed["manifest"] != nil {
		t.Errorf("%s: the deployed release in the status is %v: %v", m.Owner.Name, deployed, err)
	}
	conditions, _, err := unstructured.NestedSlice(status, "conditions")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		found = append(found, fmt.Sprint(condition["type"], " ", condition["status"], " ", condition["reason"]))
	}
	slices.Sort(found)
	want := []string{"Deployed True UpgradeSuccessful", "Initialized True ChartLoaded", "Irreconcilable False Reconciled", "Ready True Healthy"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("%s: conditions (-want +got):\n%s", m.Owner.Name, diff)
	}
}

// manifest returns status.deployedRelease.manifest.
func (m *migrated) manifest(t *testing.T) string {
	t.Helper()
	manifest, _, err := unstructured.NestedString(m.get(t).Object, "status", "deployedRelease", "manifest")
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// remove deletes the custom resource as a user, and uninstalls its release as the upstream
// operator.
func (m *migrated) remove(t *testing.T) {
	t.Helper()
	if err := m.resource.Delete(t.Context(), m.Owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Uninstall(t, shared)
	_, err := m.resource.Patch(t.Context(), m.Owner.Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "end of "+m.Owner.Name, func(ctx context.Context) (bool, error) {
		_, err := m.resource.Get(ctx, m.Owner.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && len(m.identities(t)) == 0, err
	})
	records, err := shared.Client.CoreV1().Secrets(m.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + m.Owner.Name})
	if err != nil || len(records.Items) > 0 {
		t.Errorf("%s: %d records are left: %v", m.Owner.Name, len(records.Items), err)
	}
}
