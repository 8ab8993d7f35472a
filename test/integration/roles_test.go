// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestUserRoles acts as a ServiceAccount with one of the ClusterRoles in one namespace.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	const may, mayNot = true, false
	tests := []struct {
		role                                                  string
		read, create, scale, patch, remove, createDemoCluster bool
	}{
		{role: "view", read: may},
		{role: "edit", read: may, create: may, scale: may, patch: may, remove: may},
		{role: "admin", read: may, create: may, scale: may, patch: may, remove: may},
		{role: "demoapp-viewer", read: may},
		{role: "demoapp-editor", read: may, create: may, scale: may, patch: may, remove: may},
		{role: "demoappcluster-editor", read: may, createDemoCluster: may},
	}
	for _, test := range tests {
		t.Run(test.role, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			person := bind(t, ns.Name, test.role)
			ns.Create(apps.WithoutPods("web"))
			ns.AwaitReady("web")
			expect := func(action string, allowed bool, err error) {
				t.Helper()
				if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
					t.Errorf("%s, allowed=%t: %v", action, allowed, err)
				}
			}

			// The aggregation of roles takes a moment.
			cluster.Eventually(t.Context(), t, "may list DemoApps", func(ctx context.Context) (bool, error) {
				_, err := person.DemoApps(ns.Name).List(ctx, metav1.ListOptions{})
				return err == nil, err
			})
			_, err := person.DemoApps(ns.Name).Get(t.Context(), "web", metav1.GetOptions{})
			expect("get a DemoApp", test.read, err)
			_, err = person.DemoAppClusters(ns.Name).List(t.Context(), metav1.ListOptions{})
			expect("list DemoAppClusters", test.read, err)
			_, err = person.DemoApps(ns.Name).List(t.Context(), metav1.ListOptions{})
			expect("list DemoApps", test.read, err)
			_, err = person.DemoApps("default").List(t.Context(), metav1.ListOptions{})
			expect("list DemoApps of another namespace", mayNot, err)
			_, err = person.DemoApps(ns.Name).Create(t.Context(), apps.Waiting("other", "missing"), metav1.CreateOptions{})
			expect("create a DemoApp", test.create, err)
			message := []byte(`{"spec": {"message": "changed"}}`)
			_, err = person.DemoApps(ns.Name).Patch(t.Context(), "web", types.MergePatchType, message, metav1.PatchOptions{})
			expect("patch a DemoApp", test.patch, err)
			scale := []byte(`{"spec": {"replicas": 0}}`)
			err = person.RESTClient().Patch(types.MergePatchType).Namespace(ns.Name).Resource("demoapps").Name("web").SubResource("scale").
				Body(scale).Do(t.Context()).Error()
			expect("scale a DemoApp", test.scale, err)
			desired := &v1alpha1.DemoAppCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
				Spec: v1alpha1.DemoAppClusterSpec{
					NodeSelector: map[string]v1alpha1.LabelValue{"no": "node"},
					Template:     v1alpha1.DemoAppTemplate{Spec: apps.Named("web").Spec},
				},
			}
			_, err = person.DemoAppClusters(ns.Name).Create(t.Context(), desired, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			expect("create a DemoAppCluster", test.createDemoCluster, err)
			status := []byte(`{"status": {"url": "http://forged"}}`)
			_, err = person.DemoApps(ns.Name).Patch(t.Context(), "web", types.MergePatchType, status, metav1.PatchOptions{}, "status")
			expect("patch the status of a DemoApp", mayNot, err)
			_, err = person.DemoAppClusters(ns.Name).Patch(t.Context(), "everywhere", types.MergePatchType, status, metav1.PatchOptions{}, "status")
			expect("patch the status of a DemoAppCluster", mayNot, err)
			err = person.DemoApps(ns.Name).Delete(t.Context(), "web", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			expect("delete a DemoApp", test.remove, err)
		})
	}
}

// bind grants a ClusterRole in one namespace to a new ServiceAccount, and returns the client of
// that ServiceAccount.
func bind(t *testing.T, namespace, role string) democlient.DemoV1alpha1Interface {
	t.Helper()
	const name = "person"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := shared.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	if _, err := shared.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := shared.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.DemoV1alpha1()
}
