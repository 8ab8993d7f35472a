// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cluster_test

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
)

// shared is the control plane of all tests of this package.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c }))
}

func TestPodsOfDeploymentsBecomeReady(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, image string
		ready       int32
	}{
		{name: "any image", image: "nginx:1.27-alpine", ready: 2},
		{name: "image that cannot be pulled", image: "registry.invalid/nginx:1", ready: 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			deployments := shared.Client.AppsV1().Deployments(shared.Namespace(t))
			_, err := deployments.Create(t.Context(), deployment("web", test.image), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cluster.Eventually(t.Context(), t, "status of the Deployment", func(ctx context.Context) (bool, error) {
				live, err := deployments.Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				return live.Status.UpdatedReplicas == 2 && live.Status.ReadyReplicas == test.ready, nil
			})
		})
	}
}

func deployment(name, image string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
			},
		},
	}
}

func TestServiceAccountHasOnlyGrantedPermissions(t *testing.T) {
	t.Parallel()
	namespace := shared.Namespace(t)
	config, err := shared.ServiceAccountConfig(t.Context(), namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list pods: %v, want it forbidden", err)
	}

	filter := cluster.ByServiceAccount(namespace, "default")
	if err := shared.AwaitAuditQuiet(t.Context(), 100*time.Millisecond, filter); err != nil {
		t.Fatal(err)
	}
	events, err := shared.AuditRequests(begin, filter)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Verb != "list" || events[0].Resource != "pods" || events[0].Code != 403 {
		t.Errorf("audit log has %+v, want one list of pods, forbidden", events)
	}
}

func TestOperatorStartsAndStops(t *testing.T) {
	operator := cluster.StartOperator(t.Context(), t, shared)
	if _, err := operator.Metrics(t.Context()); err != nil {
		t.Error(err)
	}
	if err := shared.ApplyFiles(t.Context(), shared.Namespace(t), "artifacts/examples/demoapp.yaml"); err != nil {
		t.Error(err)
	}
	if code := operator.Stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	again := cluster.StartOperator(t.Context(), t, shared)
	again.Kill()
	if code := again.Stop(); code != -1 {
		t.Errorf("exit code %d after a kill, want -1", code)
	}
}
