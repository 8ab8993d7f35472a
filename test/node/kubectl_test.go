// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
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
)

// waitTimeout bounds each wait. It does not depend on the machine: pods need minutes to start where many others do.
const waitTimeout = 10 * time.Minute

// places bounds the objects that start at a time, so that their pods do not wait for each other.
var places = make(chan struct{}, 6)

// takePlace waits for a place, which the test has until its end.
func takePlace(t *testing.T) {
	t.Helper()
	places <- struct{}{}
	t.Cleanup(func() { <-places })
}

// kubectl runs kubectl in the root of the repository and returns its output.
func kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.Kubectl(), append([]string{"--kubeconfig=" + shared.Kubeconfig()}, args...)...)
	cmd.Dir = shared.Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// run runs kubectl in a namespace and returns its output.
func run(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := kubectl(t.Context(), append([]string{"--namespace=" + namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitOutput waits until the output of kubectl in a namespace has a text.
func awaitOutput(t *testing.T, namespace, want string, args ...string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, fmt.Sprintf("%q in the output of kubectl %s", want, strings.Join(args, " ")), func(ctx context.Context) (bool, error) {
		out, err := kubectl(ctx, append([]string{"--namespace=" + namespace}, args...)...)
		if err != nil {
			return false, err
		}
		return strings.Contains(out, want), fmt.Errorf("it is %q", out)
	})
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
	_, err := kubectl(t.Context(), "wait", "--namespace="+namespace, object, "--for=condition=Ready", "--timeout="+waitTimeout.String())
	if err != nil {
		pods, _ := kubectl(t.Context(), "describe", "pods", "--namespace="+namespace)
		status, _ := kubectl(t.Context(), "get", "--namespace="+namespace, object, "--output=yaml")
		t.Fatalf("%v\n%s\n%s", err, status, pods)
	}
}

// await waits until an object has a condition in the notation of kubectl wait.
func await(t *testing.T, namespace, object, condition string) {
	t.Helper()
	if _, err := kubectl(t.Context(), "wait", "--namespace="+namespace, object, "--for="+condition, "--timeout="+waitTimeout.String()); err != nil {
		t.Fatal(err)
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
