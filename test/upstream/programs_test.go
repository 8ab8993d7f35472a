// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/test/cluster"
)

var (
	shared *cluster.Cluster

	memcacheds   = schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}
	configMaps   = corev1.SchemeGroupVersion.WithResource("configmaps")
	pods         = corev1.SchemeGroupVersion.WithResource("pods")
	deployments  = appsv1.SchemeGroupVersion.WithResource("deployments")
	replicaSets  = appsv1.SchemeGroupVersion.WithResource("replicasets")
	clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{}, func(c *cluster.Cluster) { shared = c }))
}

// program is one of the upstream programs.
type program struct {
	// folder is the module that pins the program, and importPath its package.
	folder, importPath string
	finalizer          string
	// overrides are the lines of the entry that override values.
	overrides string
	// reading is the line of the entry that reads overrides as the program does; empty if none is needed.
	reading string
}

var programs = map[string]program{
	"operator-sdk": {
		folder: "sdk", importPath: "github.com/operator-framework/operator-sdk/cmd/helm-operator",
		finalizer: "helm.sdk.operatorframework.io/uninstall-release",
		// As texts, "false" is true, and "12345" can be an annotation.
		overrides: "  overrideValues: {rbac.create: \"false\", podAnnotations.build: \"12345\"}\n", reading: "  overrideValuesAs: Text\n",
	},
	"helm-operator-plugins": {
		folder: "plugins", importPath: "github.com/operator-framework/helm-operator-plugins", finalizer: "uninstall-helm-release",
		overrides: "  overrideValues: {podAnnotations.build: b12345}\n",
	},
}

// TestThereAndBack plays a release of the real upstream programs: installed, changed and corrected by the
// program, taken over by the operator, given back, and taken over again to be uninstalled. It takes about
// two minutes for each program.
func TestThereAndBack(t *testing.T) {
	if err := shared.InstallCRDs(t.Context(), "artifacts/kinds/memcached/crd.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), "", "test/upstream/testdata/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	plugin := build(t, shared.Root(), "./cmd/kubectl-demoapp")
	for name, p := range programs {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // The programs have the same kind.
			w := newWorld(t, p, plugin)
			revision := w.playUpstream(t)
			w.assertPreview(t)
			w.stop()

			before := w.identities(t.Context(), t)
			operator := w.startOperator(t, "")
			w.awaitRevision(t, revision+1)
			w.assertSame(t, "the takeover", before)
			w.playOperator(t)
			operator.Stop()

			w.update(t, func(object *unstructured.Unstructured) { object.SetFinalizers([]string{p.finalizer}) })
			before = w.identities(t.Context(), t)
			newest := w.newestRevision(t.Context(), t)
			w.startUpstream(t)
			w.await(t, "an upgrade of the program", func(ctx context.Context) (bool, error) { return w.newestRevision(ctx, t) > newest, nil })
			w.assertSame(t, "the way back", before)
			w.recreate(t)
			w.stop()

			newest, before = w.newestRevision(t.Context(), t), w.identities(t.Context(), t)
			w.startOperator(t, "  drift: {foreignFields: Remove}\n")
			w.awaitRevision(t, newest+1)
			w.assertSame(t, "the second takeover", before)
			w.remove(t)
		})
	}
}

// world is one custom resource and its release.
type world struct {
	program

	namespace, folder, binary, plugin string
	stop                              func()
}

// build builds a program and returns its path.
func build(t *testing.T, folder, importPath string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	command := exec.CommandContext(t.Context(), "go", "-C", folder, "build", "-o", out, importPath)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", importPath, err, output)
	}
	return out
}

func newWorld(t *testing.T, p program, plugin string) *world {
	t.Helper()
	w := &world{
		program: p, plugin: plugin, namespace: shared.Namespace(t), folder: t.TempDir(),
		binary: build(t, filepath.Join(shared.Root(), "test", "upstream", p.folder), p.importPath),
	}
	if err := os.CopyFS(filepath.Join(w.folder, "chart"), os.DirFS(filepath.Join(shared.Root(), "test", "upstream", "testdata", "chart"))); err != nil {
		t.Fatal(err)
	}
	w.writeFile(t, "")
	return w
}

// writeFile writes watches.yaml with further lines of its entry.
func (w *world) writeFile(t *testing.T, further string) string {
	t.Helper()
	path := filepath.Join(w.folder, "watches.yaml")
	entry := "- group: cache.my.domain\n  version: v1\n  kind: Memcached\n  chart: chart\n" + w.overrides + further
	if err := os.WriteFile(path, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startUpstream starts the upstream program with its own file.
func (w *world) startUpstream(t *testing.T) {
	t.Helper()
	w.writeFile(t, "")
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, w.binary, "run", "--watches-file=watches.yaml", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--reconcile-period=5s")
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(syscall.SIGTERM) }, time.Minute
	command.Dir, command.Stdout, command.Stderr = w.folder, &log, &log
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig(), "WATCH_NAMESPACE="+w.namespace)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("log of the program:\n%s", log.String())
		}
	})
	t.Cleanup(w.stop)
}

// startOperator starts the operator with the same file and further lines in its entry.
func (w *world) startOperator(t *testing.T, further string) *cluster.Operator {
	t.Helper()
	file := w.writeFile(t, w.reading+further)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The operator has another working directory.
	content = bytes.Replace(content, []byte("chart: chart"), []byte("chart: "+filepath.Join(w.folder, "chart")), 1)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster.StartOperator(t.Context(), t, shared, "--watches-file="+file, "--namespaces="+w.namespace)
}

// playUpstream installs the release with the upstream program, changes it, and lets the program correct
// drift. It returns the newest revision.
func (w *world) playUpstream(t *testing.T) int64 {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "env": map[string]any{"X": "1", "Y": "1"},
		"tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}},
	}}}
	object.SetGroupVersionKind(memcacheds.GroupVersion().WithKind("Memcached"))
	object.SetName("web")
	if _, err := shared.Dynamic.Resource(memcacheds).Namespace(w.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.startUpstream(t)
	w.awaitPods(t, 1)
	w.update(t, func(object *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(object.Object, int64(2), "spec", "replicas")
	})
	w.awaitPods(t, 2)
	w.edit(t, `{"spec": {"template": {"spec": {"tolerations": null, "containers": [{"name": "memcached", "env": [{"name": "X", "value": "2"}]}]}}}}`)
	w.await(t, "a correction by the program", func(ctx context.Context) (bool, error) {
		found := w.deployment(ctx, t)
		return variables(found)["X"] == "1" && len(found.Spec.Template.Spec.Tolerations) == 1, nil
	})
	w.recreate(t)
	w.awaitPods(t, 2)
	return w.newestRevision(t.Context(), t)
}

// recreate deletes objects of the release, which the upstream program then creates again.
func (w *world) recreate(t *testing.T) {
	t.Helper()
	for _, o := range []struct {
		resource        schema.GroupVersionResource
		namespace, name string
	}{
		{configMaps, w.namespace, "web-kept"}, {deployments, w.namespace, "web"}, {clusterRoles, "", w.namespace + "-web"},
	} {
		client := shared.Dynamic.Resource(o.resource).Namespace(o.namespace)
		live, err := client.Get(t.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		background := metav1.DeletePropagationBackground
		if err := client.Delete(t.Context(), o.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
		w.await(t, o.name+" again", func(ctx context.Context) (bool, error) {
			found, err := client.Get(ctx, o.name, metav1.GetOptions{})
			return err == nil && found.GetUID() != live.GetUID(), err
		})
	}
	w.awaitPods(t, 2)
}

// assertPreview asserts that the dry run of a takeover shows its changes, while the upstream program
// runs.
func (w *world) assertPreview(t *testing.T) {
	t.Helper()
	if w.reading != "" {
		out, code := w.preview(t, "")
		if code != 1 || !strings.Contains(out, "delete ClusterRole/"+w.namespace+"-web") {
			t.Errorf("with another reading of the overrides, the dry run ended with %d:\n%s", code, out)
		}
	}
	if out, code := w.preview(t, w.reading); code != 0 {
		t.Errorf("the dry run ended with %d:\n%s", code, out)
	}
	w.writeFile(t, "")
}

func (w *world) preview(t *testing.T, further string) (out string, code int) {
	t.Helper()
	w.writeFile(t, further)
	command := exec.CommandContext(t.Context(), w.plugin, "adopt", "memcached/web", "--namespace="+w.namespace,
		"--dry-run=server", "--watches-file=watches.yaml", "--kubeconfig="+shared.Kubeconfig(), "--cache-dir="+t.TempDir())
	command.Dir = w.folder
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(output), command.ProcessState.ExitCode()
}

// playOperator changes the release with the operator, and lets the operator correct drift.
func (w *world) playOperator(t *testing.T) {
	t.Helper()
	w.update(t, func(object *unstructured.Unstructured) {
		unstructured.RemoveNestedField(object.Object, "spec", "env", "X")
		unstructured.RemoveNestedField(object.Object, "spec", "tolerations")
	})
	w.await(t, "the removed fields", func(ctx context.Context) (bool, error) {
		found := w.deployment(ctx, t)
		left := variables(found)
		return left["X"] == "" && left["Y"] == "1" && len(found.Spec.Template.Spec.Tolerations) == 0, fmt.Errorf("left %v", left)
	})
	w.edit(t, `{"spec": {"template": {"spec": {"containers": [{"name": "memcached", "image": "other:1"}]}}}}`)
	w.await(t, "a correction by the operator", func(ctx context.Context) (bool, error) {
		return w.deployment(ctx, t).Spec.Template.Spec.Containers[0].Image == "memcached:1.6", nil
	})
	w.recreate(t)
}

// remove deletes the custom resource, and asserts that only the kept object is left.
func (w *world) remove(t *testing.T) {
	t.Helper()
	if err := shared.Dynamic.Resource(memcacheds).Namespace(w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the end of the release", func(ctx context.Context) (bool, error) {
		_, err := shared.Dynamic.Resource(memcacheds).Namespace(w.namespace).Get(ctx, "web", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return false, err
		}
		_, err = shared.Client.RbacV1().ClusterRoles().Get(ctx, w.namespace+"-web", metav1.GetOptions{})
		left := w.identities(ctx, t)
		return apierrors.IsNotFound(err) && len(left) == 1, fmt.Errorf("%w; left %v", err, left)
	})
	if _, err := shared.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "web-kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if records := w.records(t.Context(), t); len(records) > 0 {
		t.Errorf("%d records are left", len(records))
	}
}

func (w *world) await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	cluster.Eventually(t.Context(), t, what, done)
}

// awaitPods waits until all pods of the release are ready, and their number is replicas.
func (w *world) awaitPods(t *testing.T, replicas int32) {
	t.Helper()
	w.await(t, "pods", func(ctx context.Context) (bool, error) {
		found, err := shared.Client.AppsV1().Deployments(w.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		status := found.Status
		return status.ObservedGeneration == found.Generation && status.ReadyReplicas == replicas && status.UpdatedReplicas == replicas &&
			status.Replicas == replicas, nil
	})
}

// awaitRevision waits until the operator has made a revision that is healthy, and asserts that it is the
// newest one.
func (w *world) awaitRevision(t *testing.T, revision int64) {
	t.Helper()
	w.await(t, fmt.Sprintf("revision %d", revision), func(ctx context.Context) (bool, error) {
		object := w.get(ctx, t)
		found, _, err := unstructured.NestedInt64(object.Object, "status", "deployedRelease", "revision")
		return found >= revision && isReady(object), err
	})
	if newest := w.newestRevision(t.Context(), t); newest != revision {
		t.Errorf("the newest revision is %d, want %d", newest, revision)
	}
}

// isReady reports whether the condition Ready of the current generation is True.
func isReady(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return observed == object.GetGeneration() && slices.ContainsFunc(conditions, func(item any) bool {
		condition, _ := item.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

func (w *world) get(ctx context.Context, t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object, err := shared.Dynamic.Resource(memcacheds).Namespace(w.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// update changes the custom resource.
func (w *world) update(t *testing.T, change func(*unstructured.Unstructured)) {
	t.Helper()
	w.await(t, "a change of the custom resource", func(ctx context.Context) (bool, error) {
		object := w.get(ctx, t)
		change(object)
		_, err := shared.Dynamic.Resource(memcacheds).Namespace(w.namespace).Update(ctx, object, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		return err == nil, err
	})
}

// edit changes the Deployment as a user does.
func (w *world) edit(t *testing.T, patch string) {
	t.Helper()
	_, err := shared.Client.AppsV1().Deployments(w.namespace).
		Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) deployment(ctx context.Context, t *testing.T) *appsv1.Deployment {
	t.Helper()
	found, err := shared.Client.AppsV1().Deployments(w.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func variables(of *appsv1.Deployment) map[string]string {
	found := map[string]string{}
	for _, variable := range of.Spec.Template.Spec.Containers[0].Env {
		found[variable.Name] = variable.Value
	}
	return found
}

// records are the records of the release.
func (w *world) records(ctx context.Context, t *testing.T) []corev1.Secret {
	t.Helper()
	list, err := shared.Client.CoreV1().Secrets(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=web"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (w *world) newestRevision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	newest := int64(0)
	for _, record := range w.records(ctx, t) {
		var revision int64
		if _, err := fmt.Sscan(record.Labels["version"], &revision); err != nil {
			t.Fatal(err)
		}
		newest = max(newest, revision)
	}
	return newest
}

// identities returns the UIDs of the release's objects and pods, and the spec of the Deployment.
func (w *world) identities(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{configMaps, deployments, replicaSets, pods} {
		list, err := shared.Dynamic.Resource(resource).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if object.GetName() != "kube-root-ca.crt" && object.GetDeletionTimestamp() == nil {
				found[object.GetKind()+" "+object.GetName()] = string(object.GetUID())
				if object.GetKind() == "Deployment" { // The marks of the release change its generation, too.
					content, err := yaml.Marshal(object.Object["spec"])
					if err != nil {
						t.Fatal(err)
					}
					found["spec of "+object.GetName()] = string(content)
				}
			}
		}
	}
	role, err := shared.Client.RbacV1().ClusterRoles().Get(ctx, w.namespace+"-web", metav1.GetOptions{})
	if err == nil {
		found["ClusterRole"] = string(role.UID)
	} else if !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return found
}

func (w *world) assertSame(t *testing.T, what string, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, w.identities(t.Context(), t)); diff != "" {
		t.Errorf("objects changed in %s (-before +after):\n%s", what, diff)
	}
}
