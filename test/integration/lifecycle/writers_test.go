// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// writer is a client that writes the child of an object, which is the workload of a release or a plain
// child.
type writer struct {
	// away says that the operator is stopped for the write.
	away  bool
	write func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error
	// holds reports whether the child is as it should be afterwards.
	holds func(child *unstructured.Unstructured) bool
}

// update sends a PUT, as `kubectl replace` does.
func update(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
	_, err := o.children.Update(ctx, child, metav1.UpdateOptions{FieldManager: "kubectl-replace"})
	return err
}

func merge(ctx context.Context, o *orphan, patchType types.PatchType, patch, manager string) error {
	_, err := o.children.Patch(ctx, o.child, patchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	return err
}

func containerOf(child *unstructured.Unstructured) map[string]any {
	containers, _, _ := unstructured.NestedSlice(child.Object, "spec", "template", "spec", "containers")
	return containers[0].(map[string]any)
}

func hasEnv(child *unstructured.Unstructured, name string) bool {
	env, _, _ := unstructured.NestedSlice(containerOf(child), "env")
	return slices.ContainsFunc(env, func(variable any) bool { return variable.(map[string]any)["name"] == name })
}

// isOwned reports whether the operator owns the child by apply, and no client owns desired fields by a
// write of the whole object.
func isOwned(child *unstructured.Unstructured) bool {
	managers := managersOf(child)
	return slices.ContainsFunc(managers, func(manager string) bool { return strings.HasPrefix(manager, "Apply ") }) &&
		!slices.ContainsFunc(managers, func(manager string) bool {
			return strings.HasPrefix(manager, "Update before-first-apply") || strings.HasPrefix(manager, "Update kubectl-create")
		})
}

const (
	managedBy = "app.kubernetes.io/managed-by"
	restarted = "kubectl.kubernetes.io/restartedAt"
)

// writers are the clients, in the order of their writes.
var writers = []struct {
	name string
	writer
}{
	{"kubectl replace, from a file without labels and owners", writer{
		write: func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
			child.SetLabels(nil)
			child.SetAnnotations(nil)
			child.SetOwnerReferences(nil)
			return update(ctx, o, child)
		},
		holds: func(child *unstructured.Unstructured) bool { return child.GetLabels()[managedBy] != "" },
	}},
	{"a client that resets managedFields", writer{
		write: func(ctx context.Context, o *orphan, _ *unstructured.Unstructured) error {
			return merge(ctx, o, types.MergePatchType, `{"metadata": {"managedFields": [{}]}}`, "cleaner")
		},
		holds: isOwned,
	}},
	{"kubectl replace --force, from an export", writer{
		away: true,
		write: func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
			background := metav1.DeletePropagationBackground
			if err := o.children.Delete(ctx, o.child, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				return err
			}
			child.SetUID("")
			child.SetResourceVersion("")
			child.SetManagedFields(nil)
			_, err := o.children.Create(ctx, child, metav1.CreateOptions{FieldManager: "kubectl-create"})
			return err
		},
		holds: isOwned,
	}},
	{"a reloader that adds an environment variable", writer{
		write: func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
			return merge(ctx, o, types.StrategicMergePatchType, fmt.Sprintf(
				`{"spec": {"template": {"spec": {"containers": [{"name": %q, "env": [{"name": "STAKATER_WEB", "value": "1"}]}]}}}}`,
				containerOf(child)["name"]), "Reloader")
		},
		holds: func(child *unstructured.Unstructured) bool { return hasEnv(child, "STAKATER_WEB") },
	}},
	{"kubectl rollout restart", writer{
		write: func(ctx context.Context, o *orphan, _ *unstructured.Unstructured) error {
			return merge(ctx, o, types.StrategicMergePatchType, `{"spec": {"template": {"metadata": {"annotations": {"`+restarted+`": "2026-01-01T00:00:00Z"}}}}}`, "kubectl-rollout")
		},
		holds: func(child *unstructured.Unstructured) bool {
			_, found, _ := unstructured.NestedString(child.Object, "spec", "template", "metadata", "annotations", restarted)
			return found
		},
	}},
	{"kubectl set image", writer{
		write: func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
			return merge(ctx, o, types.StrategicMergePatchType, fmt.Sprintf(
				`{"spec": {"template": {"spec": {"containers": [{"name": %q, "image": "theirs:1"}]}}}}`, containerOf(child)["name"]), "kubectl-set")
		},
		holds: func(child *unstructured.Unstructured) bool { return containerOf(child)["image"] != "theirs:1" },
	}},
	{"another controller that owns it, too", writer{
		write: func(ctx context.Context, o *orphan, child *unstructured.Unstructured) error {
			account, err := shared.Client.CoreV1().ServiceAccounts(child.GetNamespace()).Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return err
			}
			child.SetOwnerReferences(append(child.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: "v1", Kind: "ServiceAccount", Name: "default", UID: account.UID,
			}))
			return update(ctx, o, child)
		},
		holds: func(child *unstructured.Unstructured) bool { return len(child.GetOwnerReferences()) == 2 },
	}},
}

// TestOtherWriters: other clients write the workload of a release and of a plain kind. Desired fields come
// back, additions stay, the owner keeps control, and a field that is no longer desired afterwards goes.
func TestOtherWriters(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	all := orphans(t, ns.Name)[1:]
	setFormer(t, all)
	start := func() *cluster.Operator {
		return cluster.StartOperator(t.Context(), t, shared, "--watches-file=artifacts/kinds/memcached/watches.yaml")
	}
	operator := start()
	for _, o := range all {
		o.create(t)
		o.awaitChild(t)
	}

	for _, w := range writers {
		if w.away {
			operator.Stop()
		}
		for _, o := range all {
			err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
				child, err := o.children.Get(t.Context(), o.child, metav1.GetOptions{})
				if err != nil {
					return err
				}
				return w.write(t.Context(), o, child)
			})
			if err != nil {
				t.Fatalf("%s: %s: %v", w.name, o.name, err)
			}
		}
		if w.away {
			operator = start()
		}
		for _, o := range all {
			cluster.Eventually(t.Context(), t, w.name+": "+o.name, func(ctx context.Context) (bool, error) {
				owner, err := o.resource.Get(ctx, o.object.GetName(), metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				child, err := o.children.Get(ctx, o.child, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				return metav1.IsControlledBy(child, owner) && w.holds(child), fmt.Errorf("the managers are %v", managersOf(child))
			})
		}
	}

	unsetFormer(t, all)
	for _, o := range all {
		child, err := o.children.Get(t.Context(), o.child, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, found, _ := unstructured.NestedString(child.Object, "spec", "template", "metadata", "annotations", restarted); !found || !hasEnv(child, "STAKATER_WEB") {
			t.Errorf("%s: the additions of other clients are gone: %v", o.name, child.Object["spec"])
		}
	}
}

// TestReplacedOwner: GitOps tools may replace a custom resource by a manifest, which has no finalizer. The
// finalizer returns, so the deletion cleans up.
func TestReplacedOwner(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	db := orphans(t, ns.Name)[2]
	cluster.StartOperator(t.Context(), t, shared)
	db.create(t)
	db.awaitChild(t)
	claim := awaitClaim(t, ns.Name)
	live, err := db.resource.Get(t.Context(), "db", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	finalizers := live.GetFinalizers()
	replaced := db.object.DeepCopy()
	replaced.SetResourceVersion(live.GetResourceVersion())

	if _, err := db.resource.Update(t.Context(), replaced, metav1.UpdateOptions{FieldManager: "argocd-controller"}); err != nil {
		t.Fatal(err)
	}

	cluster.Eventually(t.Context(), t, "the finalizer is back", func(ctx context.Context) (bool, error) {
		found, err := db.resource.Get(ctx, "db", metav1.GetOptions{})
		return err == nil && slices.Equal(found.GetFinalizers(), finalizers), err
	})
	db.delete(t, metav1.DeletePropagationBackground)
	db.awaitGone(t)
	assertData(t, ns.Name, claim, false)
}
