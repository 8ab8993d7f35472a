// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// recordsRole allows only the requests for release records.
const recordsRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: records}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, create, update, patch, delete, deletecollection]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: records}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: records}
subjects: [{kind: ServiceAccount, name: deployer}]
`

// objectsRole allows the objects of the chart.
const objectsRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: objects}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: objects}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: objects}
subjects: [{kind: ServiceAccount, name: deployer}]
`

// TestServiceAccount: all requests for a release are sent as the ServiceAccount of the entry. The
// condition names a right that the account lacks. When the account has the right, the release is
// installed.
func TestServiceAccount(t *testing.T) {
	s := newSpace(t)
	begin := time.Now()
	_, err := shared.Client.CoreV1().ServiceAccounts(s.name).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s.name, recordsRole)

	s.create("Deputy", "a", map[string]any{"size": 3})

	refused := s.await("Deputy", "a", "ReleaseFailed True InstallError", "Irreconcilable True ReconcileError")
	s.assertMessage(refused, "Ready", "patch", "configmaps", s.name, "system:serviceaccount:"+s.name+":deployer")

	apply(t, s.name, objectsRole)
	s.annotate("Deputy", "a", "demo.example.com/requested-at", "1")
	s.await("Deputy", "a", "Ready True Healthy", "Deployed True InstallSuccessful")
	s.drift("a", "7")
	s.awaitSize("a", "3")
	s.deleteAndWait("Deputy", "a")
	s.awaitSize("a", "")

	wrong := slices.DeleteFunc(s.requests(begin), func(e cluster.AuditEvent) bool {
		own := e.Group == group || e.Resource == "events"
		return own == (e.ImpersonatedUser == "")
	})
	if len(wrong) > 0 {
		t.Errorf("requests as the wrong user:\n%s", apps.Describe(wrong))
	}
}

// TestBadSpecs: each bad spec ends in a condition with a message of one line, and its correction
// ends the condition. Other resources of the kind are not disturbed.
func TestBadSpecs(t *testing.T) {
	t.Parallel()
	twins := []any{object("v1", "ConfigMap", "", "twin"), object("v1", "ConfigMap", "", "twin")}
	many := make([]any, 10_001)
	for i := range many {
		many[i] = object("v1", "ConfigMap", "", fmt.Sprint("many-", i))
	}
	tests := map[string]struct {
		spec       any
		conditions []string
		message    []string
	}{
		"values that the schema refuses": {
			map[string]any{"size": 1000},
			[]string{"Ready False RenderFailed", "ReleaseFailed True InstallError", "Irreconcilable True ReconcileError"},
			[]string{"size", "100"},
		},
		"a text": {
			"text", []string{"Ready False ValuesInvalid", "Irreconcilable True ErrorGettingValues"}, []string{"spec: must be an object"},
		},
		"an object twice": {
			map[string]any{"extra": twins}, []string{"Ready False RenderFailed", "Irreconcilable True ReconcileError"}, []string{"twin"},
		},
		"too many objects": {
			map[string]any{"extra": many}, []string{"Ready False ValuesInvalid", "Irreconcilable True ErrorGettingValues"}, []string{"spec: it has 90013 keys"},
		},
		"an object without a name": {
			map[string]any{"extra": []any{object("v1", "ConfigMap", "", "")}}, []string{"Irreconcilable True ReconcileError"}, []string{"name"},
		},
		"text instead of an object": {
			map[string]any{"extra": []any{"text"}}, []string{"Irreconcilable True ReconcileError"}, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			s.create("Cache", "a", test.spec)
			s.create("Cache", "b", map[string]any{"size": 3})

			bad := s.await("Cache", "a", test.conditions...)
			s.await("Cache", "b", "Ready True Healthy")

			s.assertMessage(bad, "Ready", test.message...)
			s.patch(s.of("Cache"), "a", map[string]any{"spec": nil})
			s.await("Cache", "a", "Ready True Healthy", "Irreconcilable False Reconciled")
		})
	}
}

// TestPodsThatQuotaRefuses: only events say why workloads without a condition for it have no pods.
func TestPodsThatQuotaRefuses(t *testing.T) {
	t.Parallel()
	pod := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "work"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "work", "image": "work"}}},
	}
	once := runtime.DeepCopyJSON(pod)
	once["spec"].(map[string]any)["restartPolicy"] = "Never"
	labels := map[string]any{"matchLabels": map[string]any{"app": "work"}}
	tests := []struct {
		apiVersion, kind string
		spec             map[string]any
	}{
		{"apps/v1", "StatefulSet", map[string]any{"selector": labels, "template": pod}},
		{"apps/v1", "DaemonSet", map[string]any{"selector": labels, "template": pod}},
		{"batch/v1", "Job", map[string]any{"template": once}},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			s := newSpace(t)
			allow := shared.Forbid(t.Context(), t, s.name, "pods")
			workload := object(tt.apiVersion, tt.kind, "", "work")
			workload["spec"] = tt.spec

			s.create("Cache", "a", map[string]any{"extra": []any{workload}})

			s.awaitThat("Cache", "a", "the message has the quota", func(found *unstructured.Unstructured) bool {
				return strings.Contains(conditionsOf(found)["Ready"].Message,
					": pods is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0; raise the ResourceQuota none")
			})
			if err := allow(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.await("Cache", "a", "Ready True Healthy")
		})
	}
}

// TestJobWithoutPodsIsNotReadyInTime: with waitForReady, the failure names the Job, why it has no
// pods, and what to do.
func TestJobWithoutPodsIsNotReadyInTime(t *testing.T) {
	s := newSpace(t)
	shared.Forbid(t.Context(), t, s.name, "pods")
	job := object("batch/v1", "Job", "", "work")
	job["spec"] = map[string]any{"template": map[string]any{
		"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "work", "image": "work"}}},
	}}

	s.create("Waited", "a", map[string]any{"extra": []any{job}})

	late := s.await("Waited", "a", "Ready False HealthTimeout", "Stalled True HealthTimeout")
	s.assertMessage(late, "Ready", "Revision 1 is not healthy after 10s: Job work: No pod exists: pods is forbidden: exceeded quota: none, ",
		"; raise the ResourceQuota none")
}

// TestKindOfObjectIsNotServed: a release waits for the kinds of its objects.
func TestKindOfObjectIsNotServed(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"extra": []any{object(group+"/v1", "Widget", "", "widget")}})
	waiting := s.awaitThat("Cache", "a", "waits for the kind", func(live *unstructured.Unstructured) bool {
		return strings.Contains(conditionsOf(live)["Ready"].Message, "Widget")
	})
	s.assertMessage(waiting, "Ready", group+"/v1")
	s.create("Cache", "b", map[string]any{"size": 3})
	s.await("Cache", "b", "Ready True Healthy")

	installCRD(t, definition{kind: "Widget"})

	s.await("Cache", "a", "Ready True Healthy", "Irreconcilable False Reconciled")
	s.deleteAndWait("Cache", "a")
}

// rackCRD has a list with keys, as CRDs have for server-side apply.
const rackCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: racks.caches.example.com}
spec:
  group: caches.example.com
  names: {kind: Rack, listKind: RackList, plural: racks, singular: rack}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          servers:
            type: array
            x-kubernetes-list-type: map
            x-kubernetes-list-map-keys: [name]
            items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}
`

// TestEqualKeysOfCustomResource: the API server refuses a custom resource with two items of one key,
// from each client. The refusal counts as a failure of its release, which is rolled back, and names
// object, list and key.
func TestEqualKeysOfCustomResource(t *testing.T) {
	if err := shared.InstallCRDs(t.Context(), write(t, rackCRD)); err != nil {
		t.Fatal(err)
	}
	rack := func(names ...string) map[string]any {
		of := object(group+"/v1", "Rack", "", "rack")
		var servers []any
		for i, name := range names {
			servers = append(servers, map[string]any{"name": name, "size": i})
		}
		of["servers"] = servers
		return map[string]any{"extra": []any{of}}
	}
	s := newSpace(t)
	s.create("Cache", "a", rack("x", "y"))
	s.await("Cache", "a", "Ready True Healthy")

	s.set("Cache", "a", rack("x", "x"))

	failed := s.await("Cache", "a", "Ready False RolledBack")
	s.assertMessage(failed, "Ready", "Rack "+s.name+"/rack was refused", ".servers", `"x"`)
	s.set("Cache", "a", rack("x", "z"))
	s.await("Cache", "a", "Ready True Healthy")
}
