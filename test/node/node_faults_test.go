// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// TestNodeFaults: whatever happens to the operator, the control plane and the node, the pods of users run on, and the operator goes on
// with its work afterwards. The drain comes last, because it evicts pods.
func TestNodeFaults(t *testing.T) {
	withFaults(t)
	namespace := restricted(t, "node")
	startClient(t, namespace)
	apply(t, namespace, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: shop}
spec: {replicaCount: 2, image: "nginx:1.27-alpine", message: hello, apiKey: verysecret}
---
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: site}
spec: {replicas: 2, html: hello}
---`+database("shop-db", 2))
	for _, object := range []string{"demoapp/shop", "website/site", "postgresql/shop-db"} {
		awaitReady(t, namespace, object)
	}
	startDatabaseClient(t, namespace)
	if _, err := query(t, namespace, "CREATE TABLE rows AS SELECT 1 AS id"); err != nil {
		t.Fatal(err)
	}

	for i, step := range []struct {
		name string
		play func(*testing.T)
	}{
		{"the leader is killed", killLeader},
		{"the kubelet is stopped for two minutes", suspendKubelet},
		{"containerd restarts", restartContainerd},
		{"the API server is away for 40 seconds", suspendAPIServer},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := podsOf(t, namespace)

			step.play(t)

			expectWork(t, namespace, fmt.Sprintf("probe-%d", i))
			expectServing(t, namespace)
			if after := podsOf(t, namespace); !maps.Equal(before, after) {
				t.Errorf("pods are %v, want %v", after, before)
			}
		})
	}
	t.Run("the node is drained", func(t *testing.T) { drain(t, namespace) })
	revision, err := kubectl(t.Context(), "get", "--namespace="+namespace, "demoapp/shop", "--output=jsonpath={.status.deployedRelease.revision}")
	if err != nil {
		t.Fatal(err)
	}
	if revision != "1" {
		t.Errorf("the DemoApp has revision %s, want 1", revision)
	}
}

// podsOf returns the UID and the restarts of each pod.
func podsOf(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list, err := shared.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]string{}
	for i := range list.Items {
		pod := &list.Items[i]
		restarts := int32(0)
		for j := range pod.Status.ContainerStatuses {
			restarts += pod.Status.ContainerStatuses[j].RestartCount
		}
		pods[pod.Name] = fmt.Sprintf("%s, %d restarts", pod.UID, restarts)
	}
	return pods
}

// expectWork expects that the operator installs a new object.
func expectWork(t *testing.T, namespace, name string) {
	t.Helper()
	apply(t, namespace, "{apiVersion: webapp.example.com/v1, kind: Website, metadata: {name: "+name+"}, spec: {html: new}}")
	awaitReady(t, namespace, "website/"+name)
	if _, err := kubectl(t.Context(), "delete", "--namespace="+namespace, "website/"+name); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "pods of "+name+" are gone", func(ctx context.Context) (bool, error) {
		list, err := shared.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, name) {
				return false, errors.New("there is one")
			}
		}
		return true, nil
	})
}

// expectServing expects that all objects are Ready, and that their Services answer.
func expectServing(t *testing.T, namespace string) {
	t.Helper()
	for _, object := range []string{"demoapp/shop", "website/site", "postgresql/shop-db"} {
		awaitReady(t, namespace, object)
	}
	expectPage(t, namespace, "http://shop", "hello")
	expectPage(t, namespace, "http://site", "hello")
	if rows, err := query(t, namespace, "SELECT id FROM rows"); err != nil || rows != "1" {
		t.Errorf("the rows are %q, want 1: %v", rows, err)
	}
}

// leader returns the pod that leads.
func leader(ctx context.Context) (*corev1.Pod, error) {
	lease, err := shared.Client.CoordinationV1().Leases(system).Get(ctx, "demoapp-controller", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, errors.New("there is no leader")
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return shared.Client.CoreV1().Pods(system).Get(ctx, name, metav1.GetOptions{})
}

// killLeader kills the process of the leader, and waits until the other replica leads.
func killLeader(t *testing.T) {
	before, err := leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, container, _ := strings.Cut(before.Status.ContainerStatuses[0].ContainerID, "://")
	cmd := exec.CommandContext(t.Context(), "ctr", "--address="+filepath.Join(shared.Dir(), "node", "containerd.sock"), "--namespace=k8s.io",
		"tasks", "kill", "--signal=SIGKILL", container)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kill the leader: %v: %s", err, out)
	}
	cluster.Eventually(t.Context(), t, "another leader", func(ctx context.Context) (bool, error) {
		now, err := leader(ctx)
		return err == nil && now.Name != before.Name, err
	})
}

// suspend stops the process of a program for this time, and lets it go on.
func suspend(t *testing.T, program string, duration time.Duration) {
	t.Helper()
	process, err := processOf(t, program)
	expect.NoError(t, err)
	expect.NoError(t, process.Signal(syscall.SIGSTOP))
	defer func() { expect.NoError(t, process.Signal(syscall.SIGCONT)) }()
	select {
	case <-time.After(duration):
	case <-t.Context().Done():
	}
}

// suspendKubelet: after 50 seconds, Kubernetes takes the node for lost, and after 5 minutes it would evict pods.
func suspendKubelet(t *testing.T) {
	suspend(t, "kubelet", 2*time.Minute)
	await(t, system, "node/real-0", "condition=Ready")
}

// restartContainerd ends containerd, which the node starts again.
func restartContainerd(t *testing.T) {
	before, err := processOf(t, "containerd")
	expect.NoError(t, err)
	expect.NoError(t, before.Signal(syscall.SIGTERM))
	cluster.Eventually(t.Context(), t, "another containerd", func(context.Context) (bool, error) {
		now, err := processOf(t, "containerd")
		return err == nil && now.Pid != before.Pid, err
	})
	await(t, system, "node/real-0", "condition=Ready")
}

// suspendAPIServer lets all requests hang, for longer than a lease.
func suspendAPIServer(t *testing.T) { suspend(t, "kube-apiserver", 40*time.Second) }

// drain drains the only node, so evicted pods wait for it. The PodDisruptionBudget keeps one server of the database, so the drain does
// not end.
func drain(t *testing.T, namespace string) {
	before := podsOf(t, namespace)
	out, err := kubectl(t.Context(), "drain", "real-0", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=40s")
	if err == nil {
		t.Errorf("the node is drained in spite of the PodDisruptionBudget: %s", out)
	}
	after := podsOf(t, namespace)
	if before["shop-db-0"] != after["shop-db-0"] && before["shop-db-1"] != after["shop-db-1"] {
		t.Errorf("pods are %v after the drain, want a server of %v", after, before)
	}

	if _, err := kubectl(t.Context(), "uncordon", "real-0"); err != nil {
		t.Fatal(err)
	}
	startClient(t, namespace)
	startDatabaseClient(t, namespace)
	expectServing(t, namespace)
	expectWork(t, namespace, "probe-drain")
}
