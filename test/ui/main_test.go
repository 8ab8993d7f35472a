// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ui

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/cluster"
)

var (
	demoApps    = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// shared is the control plane of the tests, with an operator and the objects of testdata.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	t := &cluster.MainTest{}
	defer t.CleanUp()
	shared = t.Start(cluster.Options{KeepNamespaces: true})
	prepare(t)
	return t.End(m.Run())
}

// prepare starts the operator and creates the objects.
func prepare(t *cluster.MainTest) {
	for _, kind := range []string{"website", "postgresql", "ecommerceplatform"} {
		folder := filepath.Join(shared.Root(), "artifacts", "kinds", kind)
		err := errors.Join(
			shared.ApplyFiles(t.Context(), "", filepath.Join(folder, "rbac.yaml")),
			shared.InstallCRDs(t.Context(), filepath.Join(folder, "crd.yaml")),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	cluster.StartOperator(t.Context(), t, shared)
	for _, name := range []string{"shop", "payments"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := shared.Objects(filepath.Join(shared.Root(), "test", "ui", "testdata", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := shared.ApplyObject(t.Context(), object.GetNamespace(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range objects {
		if name := object.GetName(); name == "web" || name == "catalog" || name == "docs" {
			shared.AwaitReady(t.Context(), t, object.GetNamespace(), object)
		}
	}
	change(t, demoApps, "web", `{"spec":{"message":"Hello again"}}`)
	change(t, deployments, "catalog", `{"spec":{"replicas":4}}`)
	awaitRevision(t, "web", 2)
	awaitDrift(t, "catalog")
}

// change patches an object in the namespace shop.
func change(t testing.TB, resource schema.GroupVersionResource, name, patch string) {
	t.Helper()
	options := metav1.PatchOptions{FieldManager: "kubectl-edit"}
	if _, err := shared.Dynamic.Resource(resource).Namespace("shop").Patch(t.Context(), name, types.MergePatchType, []byte(patch), options); err != nil {
		t.Fatal(err)
	}
}

// startPage runs kubectl demoapp ui until the test ends, and returns the URL that it prints.
func startPage(t *testing.T, args ...string) string {
	t.Helper()
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"ui", "--kubeconfig", shared.Kubeconfig()}, args...)
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: in, ErrOut: os.Stderr}
		ended <- plugin.Execute(ctx, plugin.Options{}, args, streams)
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("kubectl demoapp ui ended with code %d", code)
		}
	})
	lines := bufio.NewReader(out)
	url, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // It ends with the command.
	return strings.TrimSpace(url)
}
