// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// orphan is an object that a test deletes with the propagation policy Orphan, and its main child.
type orphan struct {
	name     string
	resource dynamic.ResourceInterface
	object   *unstructured.Unstructured
	children dynamic.ResourceInterface
	child    string
	// before is the UID of the child before the deletion.
	before types.UID
}

func (o *orphan) create(t *testing.T) {
	t.Helper()
	if _, err := o.resource.Create(t.Context(), o.object.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
}

// awaitChild waits until the object controls the child and has reported on its newest generation.
func (o *orphan) awaitChild(t *testing.T) types.UID {
	t.Helper()
	var uid types.UID
	cluster.Eventually(t.Context(), t, o.name+" controls "+o.child, func(ctx context.Context) (bool, error) {
		owner, err1 := o.resource.Get(ctx, o.object.GetName(), metav1.GetOptions{})
		child, err2 := o.children.Get(ctx, o.child, metav1.GetOptions{})
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		uid = child.GetUID()
		conditions, _, _ := unstructured.NestedSlice(owner.Object, "status", "conditions")
		return len(conditions) > 0 && metav1.IsControlledBy(child, owner), fmt.Errorf("the owners of %s are %v", o.child, child.GetOwnerReferences())
	})
	return uid
}

func (o *orphan) delete(t *testing.T, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := o.resource.Delete(t.Context(), o.object.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
}

// awaitCollected waits until the garbage collector has removed its finalizer.
func (o *orphan) awaitCollected(t *testing.T) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the garbage collector is done with "+o.name, func(ctx context.Context) (bool, error) {
		object, err := o.resource.Get(ctx, o.object.GetName(), metav1.GetOptions{})
		return err == nil && !slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents), err
	})
}

func (o *orphan) awaitGone(t *testing.T) {
	t.Helper()
	cluster.Eventually(t.Context(), t, o.name+" is gone", func(ctx context.Context) (bool, error) {
		object, err := o.resource.Get(ctx, o.object.GetName(), metav1.GetOptions{})
		if err == nil {
			return false, fmt.Errorf("status is %v", object.Object["status"])
		}
		return apierrors.IsNotFound(err), err
	})
}

// assertKept asserts that the child exists, is not being deleted, and has no owner.
func (o *orphan) assertKept(t *testing.T) {
	t.Helper()
	child, err := o.children.Get(t.Context(), o.child, metav1.GetOptions{})
	if err != nil || child.GetUID() != o.before || child.GetDeletionTimestamp() != nil || len(child.GetOwnerReferences()) > 0 {
		t.Errorf("%s: %s is %v: %v", o.name, o.child, child, err)
	}
}

// orphans returns one object of each kind with a finalizer that is worth a real garbage collector.
func orphans(t *testing.T, namespace string) []*orphan {
	t.Helper()
	for _, kind := range []string{"postgresql", "memcached"} {
		err := errors.Join(
			shared.InstallCRDs(t.Context(), "artifacts/kinds/"+kind+"/crd.yaml"),
			shared.ApplyFiles(t.Context(), "", "artifacts/kinds/"+kind+"/rbac.yaml"),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(group, version, resource string) dynamic.ResourceInterface {
		return shared.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(namespace)
	}
	object := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
		}}
	}
	return []*orphan{
		{
			name: "a DemoApp", resource: of(v1alpha1.SchemeGroupVersion.Group, "v1alpha1", "demoapps"),
			object:   object("demo.example.com/v1alpha1", "DemoApp", "web", map[string]any{"replicaCount": int64(0), "apiKey": "verysecret"}),
			children: of("apps", "v1", "deployments"), child: "web",
		},
		{
			name: "a Memcached", resource: of("cache.my.domain", "v1", "memcacheds"),
			object:   object("cache.my.domain/v1", "Memcached", "memcached-cache", map[string]any{"replicaCount": int64(1)}),
			children: of("apps", "v1", "deployments"), child: "memcached-cache",
		},
		{
			name: "a PostgreSQL", resource: of("database.example.com", "v1", "postgresqls"),
			object: object("database.example.com/v1", "PostgreSQL", "db", map[string]any{
				"version": "16", "storage": "1Gi", "deletionPolicy": "Delete",
			}),
			children: of("apps", "v1", "statefulsets"), child: "db",
		},
	}
}

// TestOrphanKeepsEverything deletes objects with the propagation policy Orphan, while an operator runs
// and while none runs. In the second case, the real garbage collector has removed its finalizer before
// the operator sees the deletion. The same objects, created again, continue with the kept objects.
func TestOrphanKeepsEverything(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	all := orphans(t, ns.Name)
	start := func() *cluster.Operator {
		return cluster.StartOperator(t.Context(), t, shared, "--watches-file=artifacts/kinds/memcached/watches.yaml")
	}
	operator := start()
	for _, o := range all {
		o.create(t)
		o.before = o.awaitChild(t)
	}
	claim := awaitClaim(t, ns.Name)

	for _, away := range []bool{false, true} {
		if away {
			operator.Stop()
		}
		for _, o := range all {
			o.delete(t, metav1.DeletePropagationOrphan)
			if away {
				o.awaitCollected(t)
			}
		}
		if away {
			operator = start()
		}
		for _, o := range all {
			o.awaitGone(t)
			o.assertKept(t)
		}
		if records := ns.AuditRecords("web"); len(records) == 0 || records[len(records)-1].Data["propagation-policy"] != "Orphan" {
			t.Errorf("away %v: audit records %v", away, records)
		}
		assertData(t, ns.Name, claim, true)
		for _, o := range all {
			o.create(t)
			if after := o.awaitChild(t); after != o.before {
				t.Errorf("away %v: %s has another %s", away, o.name, o.child)
			}
		}
	}

	for _, o := range all {
		o.delete(t, metav1.DeletePropagationBackground)
	}
	for _, o := range all {
		o.awaitGone(t)
	}
	assertData(t, ns.Name, claim, false)
}

// TestOrphanFinalizerOfEditor: a user who may only change an object adds the finalizer of the policy
// Orphan. As for all objects of Kubernetes, it decides about a deletion without a policy, and a policy
// replaces it.
func TestOrphanFinalizerOfEditor(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	app := orphans(t, ns.Name)[0]
	cluster.StartOperator(t.Context(), t, shared)
	background := metav1.DeletePropagationBackground
	for _, policy := range []*metav1.DeletionPropagation{nil, &background} {
		app.create(t)
		app.before = app.awaitChild(t)
		_, err := app.resource.Patch(t.Context(), "web", types.JSONPatchType,
			[]byte(`[{"op": "add", "path": "/metadata/finalizers/-", "value": "orphan"}]`), metav1.PatchOptions{FieldManager: "editor"})
		if err != nil {
			t.Fatal(err)
		}

		if err := app.resource.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: policy}); err != nil {
			t.Fatal(err)
		}

		app.awaitGone(t)
		if policy == nil {
			app.assertKept(t)
		} else if _, err := app.children.Get(t.Context(), app.child, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the %s is left: %v", app.child, err)
		}
	}
}

// TestDeletionOfDefinitionKeepsData: the data of PostgreSQLs outlives the deletion of the CRD, whatever
// the deletion policy says.
func TestDeletionOfDefinitionKeepsData(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	db := orphans(t, ns.Name)[2]
	cluster.StartOperator(t.Context(), t, shared)
	db.create(t)
	db.awaitChild(t)
	claim := awaitClaim(t, ns.Name)

	definitions := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := definitions.Delete(t.Context(), "postgresqls.database.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	cluster.Eventually(t.Context(), t, "the CRD is gone", func(ctx context.Context) (bool, error) {
		_, err := definitions.Get(ctx, "postgresqls.database.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	assertData(t, ns.Name, claim, true)
}

// awaitClaim waits until the status of the PostgreSQL has the claim of its server.
func awaitClaim(t *testing.T, namespace string) *corev1.PersistentVolumeClaim {
	t.Helper()
	var claim *corev1.PersistentVolumeClaim
	cluster.Eventually(t.Context(), t, "the claim of the PostgreSQL", func(ctx context.Context) (_ bool, err error) {
		claim, err = shared.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data-db-0", metav1.GetOptions{})
		return err == nil, err
	})
	return claim
}

// assertData asserts that the claim and the Secret of the PostgreSQL exist and stay, or are deleted.
func assertData(t *testing.T, namespace string, claim *corev1.PersistentVolumeClaim, kept bool) {
	t.Helper()
	found, err1 := shared.Client.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
	_, err2 := shared.Client.CoreV1().Secrets(namespace).Get(t.Context(), "db-credentials", metav1.GetOptions{})
	claimKept := err1 == nil && found.UID == claim.UID && found.DeletionTimestamp == nil
	if claimKept != kept || apierrors.IsNotFound(err2) == kept {
		t.Errorf("want data kept %v, claim is %v: %v, Secret: %v", kept, found, err1, err2)
	}
}
