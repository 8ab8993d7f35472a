// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// allow grants permissions in a namespace to service accounts of the namespace.
func allow(t testing.TB, namespace, role string, rules []rbacv1.PolicyRule, accounts ...string) {
	t.Helper()
	client, meta := shared.Client.RbacV1(), metav1.ObjectMeta{Name: role}
	if _, err := client.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}}
	for _, account := range accounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account})
	}
	if _, err := client.RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestServiceAccount runs an engine that may only watch and impersonate.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for _, name := range []string{"engine", "deployer"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := shared.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow(t, namespace, "watch", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"list", "watch"}}}, "engine")
	config, err := shared.ServiceAccountConfig(t.Context(), namespace, "engine")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, namespace, func(c *helm.Config) { c.RESTConfig = config })
	desired := e.desired(smallChart("", nil), nil)
	desired.Scope, desired.ServiceAccount = helm.ScopeNamespace, "deployer"

	assertForbidden(t, e.pass(t.Context(), desired), `User "system:serviceaccount:`+namespace+`:engine" cannot impersonate`)
	allow(t, namespace, "impersonate", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"deployer"}, Verbs: []string{"impersonate"}},
	}, "engine")
	cluster.Eventually(t.Context(), t, "the right to impersonate", func(ctx context.Context) (bool, error) {
		err := e.pass(ctx, desired)
		return err != nil && !strings.Contains(err.Error(), "impersonate"), err
	})
	assertForbidden(t, e.pass(t.Context(), desired), `User "system:serviceaccount:`+namespace+`:deployer" cannot create resource "secrets"`)
	allow(t, namespace, "deploy", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get", "create", "update", "patch", "delete", "deletecollection"}},
	}, "deployer")
	cluster.Eventually(t.Context(), t, "the release of the service account", func(ctx context.Context) (bool, error) {
		err := e.converge(ctx, desired)
		return err == nil, err
	})
	if _, err := e.Uninstall(t.Context(), desired, e.baseline); err != nil {
		t.Error(err)
	}
}

func assertForbidden(t *testing.T, err error, text string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || helm.IsTerminal(err) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v, want one line with %s, not terminal", err, text)
	}
}

// immutable are manifests with a field that the API server does not change, by the resource of the
// object a.
var immutable = map[schema.GroupVersionResource]string{
	{Group: "apps", Version: "v1", Resource: "deployments"}: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {
		selector: {matchLabels: {v: "@"}}, template: {metadata: {labels: {v: "@"}}, spec: {containers: [{name: a, image: a}]}}}}`,
	{Group: "batch", Version: "v1", Resource: "jobs"}: `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true,
		template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a@"}]}}}}`,
	{Version: "v1", Resource: "services"}:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: @, ports: [{port: 80}]}}`,
	{Version: "v1", Resource: "configmaps"}: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, immutable: true, data: {v: "@"}}`,
	{Version: "v1", Resource: "secrets"}:    `{apiVersion: v1, kind: Secret, metadata: {name: a}, type: "example.com/t@"}`,
	{Group: "apps", Version: "v1", Resource: "statefulsets"}: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: "a@",
		selector: {matchLabels: {v: a}}, template: {metadata: {labels: {v: a}}, spec: {containers: [{name: a, image: a}]}}}}`,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "a@"}}`,
}

// TestForceReplace changes immutable fields of objects, and of one whose deletion would delete
// data.
func TestForceReplace(t *testing.T) {
	t.Parallel()
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	charts := map[schema.GroupVersionResource]string{claims: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {
		accessModes: [ReadWriteOnce], storageClassName: "a@", resources: {requests: {storage: 1Gi}}}}`}
	for resource, manifest := range immutable {
		charts[resource] = manifest
	}
	for resource, manifest := range charts {
		t.Run(resource.Resource, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newNamespace(t))
			version := func(mark string) helm.Release {
				return e.desired(source{
					"Chart.yaml":       []byte("apiVersion: v2\nname: small\nversion: 0.1.0\n"),
					"templates/a.yaml": []byte(strings.ReplaceAll(manifest, "@", mark)),
				}, nil)
			}
			live := func() *unstructured.Unstructured {
				object, err := shared.Dynamic.Resource(resource).Namespace(e.namespace).Get(t.Context(), "a", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return object
			}
			marks := []string{"1", "2"}
			if resource.Resource == "services" {
				marks = []string{`""`, "None"}
			}
			if err := e.converge(t.Context(), version(marks[0])); err != nil {
				t.Fatal(err)
			}
			before, desired := live().GetUID(), version(marks[1])
			if err := e.pass(t.Context(), desired); !apierrors.IsInvalid(err) || live().GetUID() != before {
				t.Fatalf("without the option: error %v, want a refusal and the same object", err)
			}
			desired.ForceReplace = true

			err := e.converge(t.Context(), desired)

			if resource == claims {
				if err == nil || !strings.Contains(err.Error(), "deletes data") || live().GetUID() != before {
					t.Errorf("error %v, want that the claim is not replaced", err)
				}
				return
			}
			if err != nil || live().GetUID() == before {
				t.Errorf("error %v, want a new object", err)
			}
		})
	}
}
