// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// memcached is a Memcached with a number of replicas.
func memcached(replicas string) string {
	return "{apiVersion: cache.my.domain/v1, kind: Memcached, metadata: {name: web}, spec: {replicaCount: " + replicas + "}}"
}

// TestDiffOfNewService: the address that the dry run makes up for a Service is left out.
func TestDiffOfNewService(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	apply(t, namespace, caches("Cache", "size: 1"))
	if ready := kubectl(t, namespace, "wait", "cache/web", "--timeout=2m"); ready.code != 0 {
		t.Fatalf("got %+v", ready)
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	changed := caches("Cache", "size: 1, extra: [{apiVersion: v1, kind: Service, metadata: {name: extra}, spec: {ports: [{port: 80}]}}]")
	expect.NoError(t, os.WriteFile(file, []byte(changed), 0o600))

	diff := kubectl(t, namespace, "diff", "-f", file)

	expect.Equal(t, "exit code: "+diff.errors, 1, diff.code)
	expect.Contains(t, "difference", diff.out, "+++ Service/extra\tchanged", "+  sessionAffinity: None\n")
	expect.Equal(t, "has an address", false, strings.Contains(diff.out, "clusterIP"))
}

// TestRenderEqualsApplied: applied once more, the rendered objects change nothing.
func TestRenderEqualsApplied(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	cache := caches("Cache", "size: 1, extra: [{apiVersion: v1, kind: Service, metadata: {name: extra}, spec: {ports: [{port: 80}]}}]")
	apply(t, namespace, cache)
	if ready := kubectl(t, namespace, "wait", "cache/web", "--timeout=2m"); ready.code != 0 {
		t.Fatalf("got %+v", ready)
	}
	dir := t.TempDir()
	file, rendered := filepath.Join(dir, "web.yaml"), filepath.Join(dir, "rendered.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(cache), 0o600))

	render := kubectl(t, namespace, "render", "-f", file, "--chart", filepath.Join(shared.Root(), "test", "integration", "watches", "testdata", "cache"))

	expect.Equal(t, "exit code: "+render.errors, 0, render.code)
	expect.NoError(t, os.WriteFile(rendered, []byte(render.out), 0o600))
	objects, err := shared.Objects(rendered)
	expect.NoError(t, err)
	if len(objects) != 2 {
		t.Fatalf("%d objects:\n%s", len(objects), render.out)
	}
	for _, object := range objects {
		mapping, err := shared.Mapping(object.GroupVersionKind().GroupKind())
		expect.NoError(t, err)
		resource := shared.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
		live, err := resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
		expect.NoError(t, err)
		object.SetOwnerReferences(live.GetOwnerReferences())
		applied, err := resource.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "helm", DryRun: []string{metav1.DryRunAll}})
		expect.NoError(t, err)
		live.SetManagedFields(nil)
		applied.SetManagedFields(nil)
		expect.Equal(t, object.GetKind()+" "+object.GetName(), live, applied)
	}
}

// TestDiffAndHistory follows a release through a change and a rollback.
func TestDiffAndHistory(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	awaitRevision := func(revision string) {
		t.Helper()
		cluster.Eventually(t.Context(), t, "revision "+revision, func(context.Context) (bool, error) {
			history := kubectl(t, namespace, "history", "memcached/web")
			return strings.Contains(history.out, "\n"+revision+" ") && !strings.Contains(history.out, "pending"), nil
		})
	}
	apply(t, namespace, memcached("0"))
	awaitRevision("1")

	expectEqual := func(args ...string) {
		t.Helper()
		if got := kubectl(t, namespace, args...); got != (answer{}) {
			t.Errorf("%s: exit code %d, want 0 and no output:\n%s%s", strings.Join(args, " "), got.code, got.out, got.errors)
		}
	}
	expectEqual("diff", "memcached/web")
	change := kubectl(t, namespace, "diff", "memcached/web", "--set", "spec.replicaCount=2")
	expect.Equal(t, "exit code of a change", 1, change.code)
	expect.Contains(t, "change", change.out, "--- Memcached/web", "-  replicaCount: 0\n+  replicaCount: 2\n", "-  replicas: 0\n+  replicas: 2\n")
	expectEqual("diff", "memcached/web")

	apply(t, namespace, memcached("1"))
	awaitRevision("2")
	compared := kubectl(t, namespace, "history", "memcached/web", "--diff", "1", "2")
	expect.Equal(t, "exit code of the comparison", 1, compared.code)
	expect.Contains(t, "comparison", compared.out, "--- values\trevision 1", "-replicaCount: 0\n+replicaCount: 1\n", "-  replicas: 0\n+  replicas: 1\n")

	rollback := kubectl(t, namespace, "rollback", "memcached/web", "--to=1", "--yes")
	expect.Equal(t, "errors of the rollback", "", rollback.errors)
	expect.Contains(t, "rollback", rollback.out, "-  replicaCount: 1\n+  replicaCount: 0\n", "rolled back to the spec of revision 1\n")
	awaitRevision("3")
	expectEqual("history", "memcached/web", "--diff", "1", "3")
	expectEqual("diff", "memcached/web")
	deployments, err := shared.Client.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	expect.Equal(t, "Deployments", 1, len(deployments.Items))
	expect.Equal(t, "replicas after the rollback", int32(0), *deployments.Items[0].Spec.Replicas)
}
