// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// backedUp are the resources of a namespace in the order in which a backup tool creates them again.
var backedUp = []schema.GroupVersionResource{
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// ofTheCluster are the objects that Kubernetes itself creates in each namespace.
var ofTheCluster = []string{"kube-root-ca.crt", "default"}

// backup is a copy of the objects of a namespace.
type backup struct {
	t         *testing.T
	namespace string
	objects   map[schema.GroupVersionResource][]unstructured.Unstructured
}

func (b *backup) of(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return shared.Dynamic.Resource(resource).Namespace(b.namespace)
}

// list returns the objects of a resource, without the objects of the cluster.
func (b *backup) list(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	found, err := b.of(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Items, func(object unstructured.Unstructured) bool { return slices.Contains(ofTheCluster, object.GetName()) }), nil
}

// takeBackup copies the objects of a namespace.
func takeBackup(t *testing.T, namespace string) *backup {
	t.Helper()
	b := &backup{t, namespace, map[schema.GroupVersionResource][]unstructured.Unstructured{}}
	for _, resource := range backedUp {
		found, err := b.list(t.Context(), resource)
		if err != nil {
			t.Fatal(err)
		}
		b.objects[resource] = found
	}
	return b
}

// lose removes all objects of the namespace, as the loss of the cluster does: no operator runs.
func (b *backup) lose(owners []*orphan) {
	b.t.Helper()
	for _, o := range owners {
		o.delete(b.t, metav1.DeletePropagationBackground)
		_, err := o.resource.Patch(b.t.Context(), o.object.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	cluster.Eventually(b.t.Context(), b.t, "the namespace is empty", func(ctx context.Context) (bool, error) {
		var errs []error
		for _, resource := range backedUp {
			left, err := b.list(ctx, resource)
			errs = append(errs, err)
			for i := range left {
				errs = append(errs, fmt.Errorf("%s is left", left[i].GetName()))
				if err := b.of(resource).Delete(ctx, left[i].GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					errs = append(errs, err)
				}
			}
		}
		return errors.Join(errs...) == nil, errors.Join(errs...)
	})
}

// restore creates the objects again. They have new UIDs, and no status. Tools differ in the rest of the
// metadata: keep changes the kept parts, and returns whether the object is restored at all.
func (b *backup) restore(keep func(object *unstructured.Unstructured) bool) {
	b.t.Helper()
	for _, resource := range backedUp {
		for i := range b.objects[resource] {
			object := b.objects[resource][i].DeepCopy()
			if !keep(object) {
				continue
			}
			object.SetUID("")
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
			delete(object.Object, "status")
			for _, assigned := range [][]string{
				{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "volumeName"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"},
			} {
				unstructured.RemoveNestedField(object.Object, assigned...)
			}
			if _, err := b.of(resource).Create(b.t.Context(), object, metav1.CreateOptions{FieldManager: "velero-server"}); err != nil {
				b.t.Fatalf("restore %s %s: %v", resource.Resource, object.GetName(), err)
			}
		}
	}
}

// withoutOwners restores objects as most tools do.
func withoutOwners(object *unstructured.Unstructured) bool {
	object.SetOwnerReferences(nil)
	return true
}

// withoutRecords restores all but the records of releases.
func withoutRecords(object *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(object.Object, "type")
	return withoutOwners(object) && kind != "helm.sh/release.v1"
}

// withOwners restores objects whose owners no longer exist.
func withOwners(*unstructured.Unstructured) bool { return true }

// TestRestoredByBackupTool restores the objects of a namespace in the ways of several tools, before their
// custom resources. Running workloads continue, also without managedFields, without records, and while an
// operator runs. A field that is no longer desired afterwards goes, although the tool wrote it.
func TestRestoredByBackupTool(t *testing.T) {
	tests := map[string]struct {
		keep func(*unstructured.Unstructured) bool
		// runs says that an operator runs during the restore, and replaced that the garbage collector may
		// delete the children, whose owners do not exist.
		runs, replaced bool
	}{
		"without owners": {keep: withoutOwners},
		"without owners and records, an operator runs": {keep: withoutRecords, runs: true},
		"with the owners of the lost cluster":          {keep: withOwners, replaced: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ns := apps.NewExclusive(t, shared)
			all := orphans(t, ns.Name)
			setFormer(t, all)
			start := func() *cluster.Operator {
				return cluster.StartOperator(t.Context(), t, shared, "--watches-file=artifacts/kinds/memcached/watches.yaml")
			}
			operator := start()
			for _, o := range all {
				o.create(t)
				o.awaitChild(t)
			}
			awaitClaim(t, ns.Name)
			operator.Stop()
			saved := takeBackup(t, ns.Name)
			saved.lose(all)

			if test.runs {
				operator = start()
			}
			saved.restore(test.keep)
			for _, o := range all {
				child, err := o.children.Get(t.Context(), o.child, metav1.GetOptions{})
				if err == nil {
					o.before = child.GetUID()
				} else if !test.replaced {
					t.Fatal(err)
				}
			}
			claim, password := awaitClaim(t, ns.Name), passwordOf(t, ns.Name)
			for _, o := range all {
				o.create(t)
			}
			if !test.runs {
				operator = start()
			}

			for _, o := range all {
				if after := o.awaitChild(t); after != o.before && !test.replaced {
					t.Errorf("%s: %s was replaced", o.name, o.child)
				}
			}
			assertData(t, ns.Name, claim, true)
			if after := passwordOf(t, ns.Name); after != password {
				t.Error("the password changed")
			}
			unsetFormer(t, all)
			operator.Stop()
		})
	}
}

// former are fields of custom resources that are removed after the restore.
var former = []struct {
	name  string
	field []string
	// patch removes the field from the spec. has reports whether the child has the field.
	patch string
	has   func(child *unstructured.Unstructured) bool
}{
	{
		"a Memcached",
		[]string{"spec", "podAnnotations", "example.com/former"},
		`{"spec": {"podAnnotations": null}}`,
		func(child *unstructured.Unstructured) bool {
			_, found, _ := unstructured.NestedString(child.Object, "spec", "template", "metadata", "annotations", "example.com/former")
			return found
		},
	},
	{
		"a PostgreSQL",
		[]string{"spec", "resources", "limits", "cpu"},
		`{"spec": {"resources": {"limits": null}}}`,
		func(child *unstructured.Unstructured) bool {
			containers, _, _ := unstructured.NestedSlice(child.Object, "spec", "template", "spec", "containers")
			_, found, _ := unstructured.NestedString(containers[0].(map[string]any), "resources", "limits", "cpu")
			return found
		},
	},
}

func setFormer(t *testing.T, all []*orphan) {
	t.Helper()
	for _, f := range former {
		for _, o := range all {
			if o.name == f.name {
				if err := unstructured.SetNestedField(o.object.Object, "1", f.field...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// unsetFormer removes the fields from the custom resources, and waits until the children lack them.
func unsetFormer(t *testing.T, all []*orphan) {
	t.Helper()
	for _, f := range former {
		o := all[slices.IndexFunc(all, func(o *orphan) bool { return o.name == f.name })]
		if child, err := o.children.Get(t.Context(), o.child, metav1.GetOptions{}); err != nil || !f.has(child) {
			t.Errorf("%s: %s has no former field: %v", o.name, o.child, err)
		}
		if _, err := o.resource.Patch(t.Context(), o.object.GetName(), types.MergePatchType, []byte(f.patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t.Context(), t, o.child+" lacks the former field", func(ctx context.Context) (bool, error) {
			child, err := o.children.Get(ctx, o.child, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return !f.has(child), fmt.Errorf("the managers are %v", managersOf(child))
		})
	}
}

func managersOf(object metav1.Object) (managers []string) {
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, string(entry.Operation)+" "+entry.Manager+" "+entry.Subresource)
	}
	return managers
}

func passwordOf(t *testing.T, namespace string) string {
	t.Helper()
	secret, err := shared.Client.CoreV1().Secrets(namespace).Get(t.Context(), "db-credentials", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["password"])
}

// TestRestoredIntoAnotherNamespace: objects of a release name the namespace of their release. In another
// namespace they are refused in one sentence, and the deletion of the DemoApp touches neither them nor the
// objects in the first namespace.
func TestRestoredIntoAnotherNamespace(t *testing.T) {
	from := apps.NewExclusive(t, shared)
	into := apps.NewExclusive(t, shared)
	cluster.StartOperator(t.Context(), t, shared)
	app := orphans(t, from.Name)[0]
	app.create(t)
	before := app.awaitChild(t)
	saved := takeBackup(t, from.Name)
	saved.namespace = into.Name
	saved.restore(func(object *unstructured.Unstructured) bool {
		object.SetNamespace(into.Name)
		return withoutOwners(object)
	})

	into.Create(apps.WithoutPods("web"))

	refused := into.Await("web", "the objects are refused", func(got *v1alpha1.DemoApp) bool {
		ready := meta.FindStatusCondition(got.Status.Conditions, apimeta.ConditionReady)
		return ready != nil && ready.Reason == apimeta.ReasonOwnershipConflict
	})
	if message := meta.FindStatusCondition(refused.Status.Conditions, apimeta.ConditionReady).Message; !strings.Contains(message, from.Name+"/web") {
		t.Errorf("the message is %q", message)
	}
	into.Delete("web")
	into.AwaitGone("web")
	for _, namespace := range []string{from.Name, into.Name} {
		if _, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
	if after := app.awaitChild(t); after != before {
		t.Error("the Deployment of the first namespace was replaced")
	}
}

// TestDeletionOfParentsDefinitionKeepsData: the garbage collector deletes the PostgreSQL of an AppStack
// with the CRD of AppStacks. Its data stays, whatever its deletion policy says.
func TestDeletionOfParentsDefinitionKeepsData(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	orphans(t, ns.Name) // Installs the kind PostgreSQL.
	err := errors.Join(
		shared.InstallCRDs(t.Context(), "artifacts/kinds/appstack/crd.yaml"), shared.ApplyFiles(t.Context(), "", "artifacts/kinds/appstack/rbac.yaml"),
	)
	if err != nil {
		t.Fatal(err)
	}
	cluster.StartOperator(t.Context(), t, shared)
	of := func(group, version, resource string) dynamic.NamespaceableResourceInterface {
		return shared.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	}
	stack := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "app.example.com/v1", "kind": "AppStack", "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{
			"database": map[string]any{"version": "16", "storage": "1Gi"},
			"backend":  map[string]any{"image": "backend:1"}, "frontend": map[string]any{"image": "frontend:1", "port": int64(80)},
		},
	}}
	if _, err := of("app.example.com", "v1", "appstacks").Namespace(ns.Name).Create(t.Context(), stack, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	databases := of("database.example.com", "v1", "postgresqls").Namespace(ns.Name)
	var claim *corev1.PersistentVolumeClaim
	cluster.Eventually(t.Context(), t, "the claim of the database", func(ctx context.Context) (_ bool, err error) {
		claim, err = shared.Client.CoreV1().PersistentVolumeClaims(ns.Name).Get(ctx, "data-shop-db-0", metav1.GetOptions{})
		return err == nil, err
	})
	_, err = databases.Patch(t.Context(), "shop-db", types.MergePatchType, []byte(`{"spec": {"deletionPolicy": "Delete"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}

	definitions := of("apiextensions.k8s.io", "v1", "customresourcedefinitions")
	if err := definitions.Delete(t.Context(), "appstacks.app.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	cluster.Eventually(t.Context(), t, "the CRD is gone", func(ctx context.Context) (bool, error) {
		_, err := definitions.Get(ctx, "appstacks.app.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	// The garbage collector deletes the database only if it is quick: later, it does not know the kind of the owner.
	if err := databases.Delete(t.Context(), "shop-db", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the database is gone", func(ctx context.Context) (bool, error) {
		_, err := databases.Get(ctx, "shop-db", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	found, err := shared.Client.CoreV1().PersistentVolumeClaims(ns.Name).Get(t.Context(), claim.Name, metav1.GetOptions{})
	if err != nil || found.UID != claim.UID || found.DeletionTimestamp != nil {
		t.Errorf("the claim is %v: %v", found, err)
	}
	if _, err := shared.Client.CoreV1().Secrets(ns.Name).Get(t.Context(), "shop-db-credentials", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
