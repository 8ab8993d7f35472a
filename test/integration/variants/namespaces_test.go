// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// assertRequestsOnlyIn asserts that since then the operator has sent requests only for these
// namespaces, its own and that of the audit records.
func assertRequestsOnlyIn(t *testing.T, since time.Time, namespaces ...string) {
	t.Helper()
	namespaces = append(namespaces, cluster.OperatorNamespace, apps.AuditNamespace)
	// Discovery, namespaces themselves, the nodes that DemoAppClusters need, and questions about
	// the operator's own permissions are cluster-scoped.
	clusterScoped := []string{"customresourcedefinitions", "apiservices", "namespaces", "nodes", "selfsubjectrulesreviews"}
	requests, err := shared.AuditRequests(since, func(request cluster.AuditEvent) bool {
		return cluster.ByOperator()(request) && request.Resource != "" &&
			!slices.Contains(namespaces, request.Namespace) && !slices.Contains(clusterScoped, request.Resource)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) > 0 {
		t.Errorf("the operator sent requests for other namespaces:\n%s", apps.Describe(requests))
	}
}

// TestForgeriesReachNoOtherNamespace forges records and statuses with objects of a namespace that
// the operator does not watch.
func TestForgeriesReachNoOtherNamespace(t *testing.T) {
	ns, other := apps.NewExclusive(t, shared), apps.NewExclusive(t, shared)
	theirs, err := shared.Client.CoreV1().ConfigMaps(other.Name).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"some": "data"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cluster.StartOperator(t.Context(), t, shared, "--namespaces="+ns.Name)
	tenant := ns.AddTenant("demoapps", "demoapps/status")
	names := []string{"manifest", "namespace", "hook", "inventory"}
	for _, name := range names {
		ns.Create(apps.WithoutPods(name))
		ns.AwaitReady(name)
	}
	intruder := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: %s}\ndata: {intruder: data}\n", other.Name)

	tenant.EditRecord("manifest", 1, func(content map[string]any) {
		content["manifest"] = content["manifest"].(string) + "---\n" + intruder
	})
	tenant.EditRecord("namespace", 1, func(content map[string]any) { content["namespace"] = other.Name })
	for _, name := range names[:2] {
		tenant.DeleteService(name)
		ns.AwaitFromChart(name)
	}
	tenant.EditRecord("hook", 1, func(content map[string]any) {
		content["hooks"] = []any{map[string]any{
			"name": "theirs", "kind": "ConfigMap", "manifest": intruder, "events": []string{"pre-delete"},
			"last_run": map[string]any{"phase": ""}, "delete_policies": []string{"before-hook-creation"},
		}}
	})
	ns.Change("inventory", func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = true })
	ns.Await("inventory", "suspended", func(app *v1alpha1.DemoApp) bool { return !apps.IsAbsent(app, releasev1alpha1.ConditionSuspended) })
	apps.AwaitNoWork(t, shared)
	inventory := fmt.Appendf(nil, `{"status": {"inventory": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, "name": "theirs", "uid": %q}]}}`,
		other.Name, theirs.UID)
	_, err = ns.Demo.Patch(t.Context(), "inventory", types.MergePatchType, inventory, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	err = tenant.Client.CoreV1().Secrets(ns.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "owner=helm,name=inventory"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		ns.Delete(name)
		ns.AwaitGone(name)
	}
	apps.AwaitNoWork(t, shared)

	assertRequestsOnlyIn(t, begin, ns.Name)
	live, err := shared.Client.CoreV1().ConfigMaps(other.Name).Get(t.Context(), "theirs", metav1.GetOptions{})
	if err != nil || live.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the ConfigMap of the other namespace was changed: %+v (%v)", live, err)
	}
}
