// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// response is an answer of a pod.
type response string

func (r response) DoRaw(context.Context) ([]byte, error) { return []byte(r), nil }

func (r response) Stream(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(r))), nil
}

// TestBundle: a bundle has objects, events and the operator, no text that may be secret, and says
// which permission was missing.
func TestBundle(t *testing.T) {
	cluster, _ := treeCluster(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata:
  name: web
  namespace: shop
  uid: u1
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "s3cret"}
spec: {replicas: 3, apiKey: s3cret, values: {list: [{url: "a:s3cret"}], password: 73111}}
status:
  conditions: [{type: Ready, status: "True", reason: Healthy}]
  deployedRelease: {name: web, manifest: "s3cret"}
`)
	kube, ok := cluster.Kubernetes.(*kubefake.Clientset)
	if !ok {
		t.Fatal("the cluster has another client")
	}
	labels := map[string]string{"app": "operator"}
	for _, object := range []runtime.Object{
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Operator.Namespace, Name: cluster.Operator.Name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "operator", Command: []string{"run", "--password", "s3cret"},
					Args: []string{"--workers=3", "--license-token=s3cret", "--proxy=https://user:s3cret@proxy"}, Env: []corev1.EnvVar{{Name: "TOKEN", Value: "s3cret"}},
				}}}},
			},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Operator.Namespace, Name: "operator-1", Labels: labels},
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "copy"}},
				Containers:     []corev1.Container{{Name: "operator", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9100}}}},
			},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "operator", RestartCount: 2}}},
		},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "a"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web"}, Reason: "Installed",
		},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "b"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "other"}, Reason: "Foreign",
		},
	} {
		if err := kube.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	kube.PrependReactor("get", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), cluster.Operator.Name, nil)
	})
	kube.AddProxyReactor("pods", func(action clienttesting.Action) (bool, restclient.ResponseWrapper, error) {
		request, _ := action.(clienttesting.ProxyGetAction)
		return true, response("workers 3, port " + request.GetPort() + "\n"), nil
	})

	bundle, err := cluster.Bundle(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}

	for name, content := range bundle.Files {
		if strings.Contains(string(content), "s3cret") || strings.Contains(string(content), "73111") {
			t.Errorf("%s has a secret:\n%s", name, content)
		}
	}
	for name, part := range map[string]string{
		"objects/demoapps.demo.example.com.yaml": "replicas: 3", "events.txt": "Installed", "kubernetes-version.txt": "v",
		"operator/deployment.yaml": "--workers=3", "operator/metrics/operator-1.txt": "workers 3, port 9100",
		"operator/logs/operator-1-operator.log": "fake logs", "operator/logs/operator-1-copy.log": "fake logs",
		"operator/logs/operator-1-operator.previous.log": "fake logs", "operator/pods/operator-1.yaml": "restartCount: 2",
	} {
		if !strings.Contains(string(bundle.Files[name]), part) {
			t.Errorf("%s lacks %q:\n%s", name, part, bundle.Files[name])
		}
	}
	if _, found := bundle.Files["operator/logs/operator-1-copy.previous.log"]; found {
		t.Error("a container without restarts has a log before its restart")
	}
	if strings.Contains(string(bundle.Files["events.txt"]), "Foreign") {
		t.Error("events of other objects are in the bundle")
	}
	if !slices.ContainsFunc(bundle.LeftOut, func(line string) bool {
		return strings.HasPrefix(line, "Lease and version of the operator: ") && strings.Contains(line, "forbidden")
	}) {
		t.Errorf("left out are %q", bundle.LeftOut)
	}
}
