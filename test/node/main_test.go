// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/repository"
)

// shared has the operator of artifacts/install.yaml, with all kinds.
var shared *cluster.Cluster

// parallel is the number of parallel tests. They mostly wait, so it can exceed the number of processors.
const parallel = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	root, err := repository.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	image := filepath.Join(root, "bin", "image.tar")
	if _, err := os.Stat(image); err != nil {
		fmt.Fprintln(os.Stderr, "run make test-node, which makes the image of the operator:", err)
		os.Exit(1)
	}
	main := &cluster.MainTest{}
	shared = main.Start(cluster.Options{RealNode: true, Images: []string{image}})
	installOperator(main.Context(), main)
	os.Exit(main.End(m.Run()))
}

// installOperator installs the operator and all kinds, and waits until it is available.
func installOperator(ctx context.Context, t testing.TB) {
	if _, err := kubectl(ctx, "apply", "--server-side", "--filename=artifacts/install.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := shared.InstallKinds(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(ctx, "rollout", "status", "--namespace=demoapp-system", "deployment/demoapp-controller", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl in the root of the repository and returns its output.
func kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.Kubectl(), append([]string{"--kubeconfig=" + shared.Kubeconfig()}, args...)...)
	cmd.Dir = shared.Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// restricted creates a namespace that enforces the restricted Pod Security profile.
func restricted(t *testing.T, name string) string {
	t.Helper()
	return shared.CreateNamespace(t, metav1.ObjectMeta{
		GenerateName: name + "-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	})
}

// apply applies a manifest to a namespace.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "apply", "--namespace="+namespace, "--filename="+file); err != nil {
		t.Fatal(err)
	}
}

// awaitReady waits until the object, such as demoapp/shop, is Ready at its current generation.
func awaitReady(t *testing.T, namespace, object string) {
	t.Helper()
	_, err := kubectl(t.Context(), "wait", "--namespace="+namespace, object, "--for=condition=Ready", "--timeout=3m")
	if err != nil {
		pods, _ := kubectl(t.Context(), "describe", "pods", "--namespace="+namespace)
		status, _ := kubectl(t.Context(), "get", "--namespace="+namespace, object, "--output=yaml")
		t.Fatalf("%v\n%s\n%s", err, status, pods)
	}
}

// awaitRollout waits until all pods of a Deployment run its current template, and older pods are gone.
func awaitRollout(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "rollout of "+name, func(ctx context.Context) (bool, error) {
		d, err := shared.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		pods, err := shared.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector),
		})
		if err != nil {
			return false, err
		}
		return isRolledOut(d, replicas) && len(pods.Items) == int(replicas), fmt.Errorf("status %+v, %d pods", d.Status, len(pods.Items))
	})
}

func isRolledOut(d *appsv1.Deployment, replicas int32) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == replicas && d.Status.AvailableReplicas == replicas
}

// execute runs a command in a pod and returns its output.
func execute(t *testing.T, namespace, pod string, command ...string) (string, error) {
	t.Helper()
	return kubectl(t.Context(), append([]string{"exec", "--namespace=" + namespace, pod, "--"}, command...)...)
}
