// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
)

// memcachedFolders have the CRD, the RBAC and an example of each kind of the hybrid operator.
var memcachedFolders = []string{"artifacts/kinds/memcached", "artifacts/kinds/memcachedbackup"}

// TestHybridExample builds and runs examples/hybrid: a chart with a translator, hooks and an
// annotation of its own for one kind, and Go code for the other.
func TestHybridExample(t *testing.T) {
	namespace := shared.Namespace(t)
	memcacheds := installMemcacheds(t, namespace)
	operator := startHybrid(t)

	for _, folder := range memcachedFolders {
		example := filepath.Join(folder, "example.yaml")
		if err := shared.ApplyFiles(t.Context(), namespace, example); err != nil {
			t.Fatal(err)
		}
		objects, err := shared.Objects(example)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			shared.AwaitReady(t.Context(), t, namespace, object)
		}
	}

	deployment, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), "memcached-sample", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := deployment.Spec.Template.Annotations["cache.my.domain/memcached"]; got != "memcached-sample" {
		t.Errorf("the translator's annotation of the pods is %q", got)
	}
	if got := *deployment.Spec.Replicas; got != 2 {
		t.Errorf("the Deployment has %d replicas, want those of the example", got)
	}
	cluster.Eventually(t.Context(), t, "the post-reconcile hook logs revision 1", func(context.Context) (bool, error) {
		return regexp.MustCompile(`msg=Deployed .*object\.name=memcached-sample .*revision=1`).MatchString(operator.Log()), nil
	})

	scale(t, memcacheds, 11)
	awaitCondition(t, memcacheds, "Irreconcilable", "ReconcileError", "spec.replicaCount: must be at most 10, got 11")
	if got := records(t, namespace); len(got) != 1 {
		t.Errorf("the pre-reconcile hook did not hold the upgrade: records %v", got)
	}

	for replicas := range 3 {
		scale(t, memcacheds, replicas+3)
		awaitCondition(t, memcacheds, "Deployed", "UpgradeSuccessful", fmt.Sprintf("Revision %d ", replicas+2))
	}
	if got := records(t, namespace); len(got) != 2 {
		t.Errorf("records %v, want the 2 of the annotation keep-revisions", got)
	}

	if err := memcacheds.Delete(t.Context(), "memcached-sample", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the Memcached is gone", func(ctx context.Context) (bool, error) {
		_, err := memcacheds.Get(ctx, "memcached-sample", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if got := records(t, namespace); len(got) != 0 {
		t.Errorf("records %v after the deletion", got)
	}
	if code := operator.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// installMemcacheds installs the CRDs and the RBAC of the kinds for the time of the test, and
// returns the Memcacheds of the namespace.
func installMemcacheds(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	crds := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, folder := range memcachedFolders {
		err := errors.Join(
			shared.InstallCRDs(t.Context(), filepath.Join(folder, "crd.yaml")),
			shared.ApplyFiles(t.Context(), "", filepath.Join(folder, "rbac.yaml")),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range []string{"memcacheds.cache.my.domain", "memcachedbackups.cache.my.domain"} {
			if err := crds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	return shared.Dynamic.Resource(schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}).Namespace(namespace)
}

// startHybrid builds and starts the example. Its lease has the name that the operator's RBAC
// grants.
func startHybrid(t *testing.T) *cluster.Operator {
	t.Helper()
	binary, err := build("hybrid", "./examples/hybrid")
	if err != nil {
		t.Fatal(err)
	}
	return cluster.StartOperatorBinary(t.Context(), t, shared, binary, "--leader-elect-resource-name="+cluster.LeaseName, "-v=2")
}

// scale changes the number of replicas, and asks for a history of two revisions.
func scale(t *testing.T, memcacheds dynamic.ResourceInterface, replicas int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"cache.my.domain/keep-revisions":"2"}},"spec":{"replicaCount":%d}}`, replicas)
	if _, err := memcacheds.Patch(t.Context(), "memcached-sample", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitCondition waits until a condition of the Memcached has a reason, and a message with a text.
func awaitCondition(t *testing.T, memcacheds dynamic.ResourceInterface, conditionType, reason, text string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, conditionType+" with "+reason+" and "+text, func(ctx context.Context) (bool, error) {
		live, err := memcacheds.Get(ctx, "memcached-sample", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		found := slices.ContainsFunc(conditions, func(item any) bool {
			condition, ok := item.(map[string]any)
			return ok && condition["type"] == conditionType && condition["reason"] == reason && strings.Contains(fmt.Sprint(condition["message"]), text)
		})
		return found, errors.Join(err, fmt.Errorf("conditions are %v", conditions))
	})
}

// records returns the names of the release records in a namespace.
func records(t *testing.T, namespace string) []string {
	t.Helper()
	found, err := shared.Client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, secret := range found.Items {
		names = append(names, secret.Name)
	}
	return names
}
